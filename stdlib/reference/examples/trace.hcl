trace "before" {
  framework = "vllm"
  path      = "traces/decode.pt.trace.json.gz"
  stage     = "decode"
}
