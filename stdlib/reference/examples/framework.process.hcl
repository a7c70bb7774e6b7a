gpus {
  model = "NVIDIA H200"
  ids   = [0, 1, 2]
}
framework "vllm" {
  program  = "/opt/vllm/bin/vllm"
  endpoint = "router"
  flags    = { max_model_len = 9000 }
  process "prefill" {
    count = 2
    gpus  = 1
  }
  process "decode" {
    gpus = 1
  }
  process "router" {
    command = ["vllm-router", "--port", "{port}"]
    after   = ["prefill", "decode"]
  }
}
