variable "input_len" {
  type    = number
  default = 1000
  doc     = "Tokens of a chat prompt."
}
scenario "chat" {
  input_len  = var.input_len
  output_len = 1000
}
scenario "summarization" {
  input_len  = 8 * var.input_len
  output_len = 1000
}
