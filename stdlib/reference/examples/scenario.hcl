scenario "rag" {
  for_each    = { short = 2000, long = 6000 }
  input_len   = each.value
  output_len  = 300
  num_prompts = 200
}
workload {
  production = true
  reason     = "Our retrieval traffic has long prompts and short answers."
}
