flags {
  rule "draft" {
    flag    = "draft_tokens"
    needs   = "draft_model"
    because = "There is nothing to draft with."
  }
}
