accuracy {
  prompts       = 32
  min_agreement = 0.98
}
