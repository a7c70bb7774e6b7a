server {
  command = ["{program}", "{model}", "--port", "{port}", "{flags}"]
  identity {
    path     = "/info"
    contains = "mine"
  }
}
