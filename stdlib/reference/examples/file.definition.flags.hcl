flags {
  context      = "max_len"
  parallel     = ["tensor_parallel_size"]
  fixed        = { log_requests = false }
  not_searched = { seed = "It is the same for every candidate." }
  aliases      = { tp = "tensor_parallel_size" }
}
