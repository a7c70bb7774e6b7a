server {
  program    = "mine-server"
  command    = ["{program}", "--model", "{model}", "--name", "{served_name}", "--host", "{host}", "--port", "{port}", "{flags}"]
  flag_style = "kebab"
  booleans   = "pair"
  env        = { MINE_TELEMETRY = "off" }
  health     = "/healthz"
}
