campaign "with-tokenspeed" {
  target  = "vllm"
  compare = ["tokenspeed"]
}
framework "vllm" {
  program = "/opt/vllm/bin/vllm"
  flags   = { max_model_len = 9000 }
}
framework "tokenspeed" {
  program = "/opt/tokenspeed/bin/tokenspeed"
  flags   = { max_model_len = 9000 }
  verification {
    requests = 5
  }
}
