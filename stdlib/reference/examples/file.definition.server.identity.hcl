server {
  command = ["{program}", "{model}", "--name", "{served_name}", "--port", "{port}", "{flags}"]
  identity {
    path     = "/info"
    contains = "mine"
  }
}
