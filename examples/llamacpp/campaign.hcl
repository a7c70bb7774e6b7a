# A real llama-server (llama.cpp) against tinyserve, on the CPU.
#
#   make example-llamacpp   runs prepare.sh and image.sh, then applies this file
#
# What this shows: two independent servers started, asked for their help, sent
# the same frozen prompts, counted by the same rules, ranked and reported. What
# it does not show: which one is faster for your model. Both serve a
# transformer of the same shape in float32 with random weights, but each has its
# own weights and its own output tokens, and rule R055 compares equal weights
# only. So smoke = true: everything it makes is a flow check and decides nothing.
campaign "llamacpp" {
  target  = "tinyserve"
  compare = ["llamacpp"]
  smoke   = true
}

model "tiny" {
  path         = "prepared/model" # config.json for tinyserve, model.gguf for llama-server
  precision    = "fp32"
  quantization = "none"
  max_context  = 2048
  # Ids that both read as ordinary text: 0 to 4 are special, 5 to 260 the single
  # bytes, and from 261 on stand merges, whatever their letters.
  vocab = [261, 512]
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

framework "tinyserve" {
  program = "../../bin/tinyserve"
  image   = "docker-archive:../../bin/tinyserve.tar"
  flags = {
    threads       = 1
    max_model_len = 2048
  }
  search {
    max_candidates = 4
    space = {
      max_num_seqs = [1, 2, 4]
    }
  }
}

framework "llamacpp" {
  use     = "llamacpp_tiny" # the definition beside this file
  program = "prepared/server/llama-server"
  tree    = "prepared/server" # program and libraries together are the software
  image   = "docker-archive:prepared/image.tar" # the same tree, by image.sh
  flags = {
    threads      = 1
    ctx_size     = 2048
    cache_type_k = "f32"
    cache_type_v = "f32"
  }
  search {
    max_candidates = 4
    space = {
      parallel = [1, 2, 4]
    }
  }
}
