server {
  program    = "mine-server"
  command    = ["{program}", "--model", "{model}", "--host", "{host}", "--port", "{port}", "{flags}"]
  flag_style = "kebab"
  booleans   = "pair"
  env        = { MINE_TELEMETRY = "off" }
  health     = "/healthz"
}
