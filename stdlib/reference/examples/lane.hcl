scenario "agent" {
  input_len   = 2000
  output_len  = 200
  num_prompts = 40
  lane        = "agentic"
}
lane "agentic" {
  dataset     = "sessions"
  turns       = 4
  think_time  = "500ms"
  concurrency = [8]
}
