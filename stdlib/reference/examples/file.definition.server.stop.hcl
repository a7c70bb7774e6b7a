server {
  command = ["{program}", "{model}", "--name", "{served_name}", "--port", "{port}", "{flags}"]
  stop {
    first  = "10s"
    second = "5s"
  }
}
