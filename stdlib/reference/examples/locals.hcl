locals {
  context = 8000 + 1000
  seqs    = [for n in [1, 2, 4] : n * 64]
}
framework "vllm" {
  program = "/opt/vllm/bin/vllm"
  flags   = { max_model_len = local.context }
  search {
    space = { max_num_seqs = local.seqs }
  }
}
