scenario "assistant" {
  input_len   = 800
  output_len  = 300
  num_prompts = 100
  mix "documents" {
    share      = 0.2
    input_len  = 6000
    output_len = 150
  }
}
workload {
  production = true
  reason     = "One question in five comes with a document."
}
