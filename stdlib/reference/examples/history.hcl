history {
  root = "../skills/model-pr-optimization-history"
}
