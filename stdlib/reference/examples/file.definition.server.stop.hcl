server {
  command = ["{program}", "{model}", "--port", "{port}", "{flags}"]
  stop {
    first  = "10s"
    second = "5s"
  }
}
