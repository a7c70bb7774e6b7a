framework "vllm" {
  program = "/opt/vllm/bin/vllm"
  flags   = { max_model_len = 9000 }
  search {
    max_candidates = 7
    space = {
      max_num_seqs           = [64, 128, 256]
      max_num_batched_tokens = [8192, 16384]
    }
  }
}
