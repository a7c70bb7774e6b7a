# The whole job on a laptop, without a GPU: two configurations of tinyserve, a
# real small transformer server, compared as two frameworks.
#
#   make demo             builds both programs and applies this file
#   make demo-container   the same in containers, from an image of the same program
#
# smoke = true marks every result as a flow check: the scenarios are far
# smaller than the two that a real decision needs.
campaign "quickstart" {
  target  = "blocked"
  compare = ["naive"]
  smoke   = true
}

model "tiny" {
  path         = "../models/tiny" # config.json: random weights from a seed
  precision    = "fp32"
  quantization = "none"
  max_context  = 1024
}

sla {
  max_p50_ttft_ms  = 20000
  max_p50_tpot_ms  = 500
  min_success_rate = 0.99
}

scenario "chat" {
  input_len   = 64
  output_len  = 64
  num_prompts = 16
}

scenario "summarization" {
  input_len   = 256
  output_len  = 32
  num_prompts = 8
}

workload {
  arrival     = "inf"
  concurrency = [4]
  warmup      = 2
  seed        = 1
}

# make demo-container sets it: the same campaign, with its servers in containers.
variable "image" {
  default = null
}

framework "blocked" {
  use     = "tinyserve"
  program = "../../bin/tinyserve"
  image   = var.image
  flags = {
    kernel        = "blocked"
    threads       = 1
    max_model_len = 1024
  }
  search {
    max_candidates = 3
    space = {
      max_num_seqs = [2, 4]
    }
  }
}

framework "naive" {
  use     = "tinyserve"
  program = "../../bin/tinyserve"
  image   = var.image
  flags = {
    kernel        = "naive"
    threads       = 1
    max_model_len = 1024
  }
  search {
    max_candidates = 3
    space = {
      max_num_seqs = [2, 4]
    }
  }
}
