version {
  command = ["{program}", "--version"]
  pattern = "mine ([0-9.]+)"
}
