# Any server with OpenAI's API that already runs. It cannot be started: its
# framework block has a url.
definition "openai" {
  server {
    health = "/v1/models"
  }
}
