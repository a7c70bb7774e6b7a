# What ends a loop, asked after each finished round, in this order. The first
# that holds ends it. Every fact that a condition names must be known: an unknown
# fact is an error, never a silent yes or no.

# The target beats the best competitor: it is behind in no scenario and ahead in
# at least one, by more than the noise, and it passes the SLA (R196). A flow
# check decides nothing (R069).
stop "reached" {
  when    = !round.smoke && round.fair && round.stable && round.sla_ok && round.worst_gap <= round.threshold && round.best_gap < -round.threshold
  reached = true
}

# Repeated runs show it within the noise of the best in every scenario (R197).
stop "tied" {
  when    = !round.smoke && round.fair && round.stable && round.sla_ok && round.worst_gap <= round.threshold && round.best_gap >= -round.threshold
  reached = true
}

# What remains is proven to lie outside: hardware support, a dependency, a
# backend or weights that cannot be had, each with its evidence (R198). A row
# that nobody has looked into yet keeps the loop going.
stop "external" {
  when    = round.blockers > 0 && round.open_rows == 0
  reached = false
}

# Profiles show the hot path near the limits of hardware and algorithm, and no
# idea of low risk is left (R199).
stop "near_limit" {
  when    = round.near_limit && round.open_rows == 0
  reached = false
}
