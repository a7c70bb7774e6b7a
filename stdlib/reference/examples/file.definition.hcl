definition "mine" {
  help "server" {
    command = ["{program}", "--help"]
  }
  server {
    command = ["{program}", "{model}", "--name", "{served_name}", "--port", "{port}", "{flags}"]
  }
  metrics = { running = "mine_requests_running" }
  sources = ["src/**"]
}
