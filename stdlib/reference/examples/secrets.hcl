secrets {
  env = ["HF_TOKEN"]
}
