# The samples of scripts/lab, one run a line, as tables on standard output and as JSON in the file `json`:
# HOSTS RATE KV_HEADS TOKENS KIND REPEAT PREDICTED_S MEASURED_S PAYLOAD_BYTES PREDICTED_BYTES
# Exits with 5 where an interface's bytes are more than 2 % off the prediction.

function sort(list, count, i, k, v) {
  for (i = 2; i <= count; i++) {
    v = list[i]
    for (k = i - 1; k > 0 && list[k] > v; k--) list[k + 1] = list[k]
    list[k + 1] = v
  }
}
function middle(list, count) { return count % 2 ? list[(count + 1) / 2] : (list[count / 2] + list[count / 2 + 1]) / 2 }

function distance(x) { return x < 0 ? -x : x }

# Of one case over the repeats.
function summarize(key, count, i, values) {
  count = repeats[key]
  for (i = 1; i <= count; i++) values[i] = seconds[key, i]
  sort(values, count)
  median[key] = middle(values, count)
  least[key] = values[1]
  greatest[key] = values[count]
}

function name(kind) { return kind == "ring" ? "ring" : "Ulysses" }
function winner(u, r) { return u <= r ? "ulysses" : "ring" }
# The one length at which the winner changes: Ulysses less ring is a + b times the length (messages and bytes), which
# has one zero at most. Of all ways to say "first one, then the other", the one that is least wrong, in log(Ulysses /
# ring) summed over the lengths on the wrong side; the length where a straight line over log(length) crosses 0 there.
# Fills found["from"], found["to"], found["at"]; false: one kind throughout, found["from"].
function change(count, length_of, gap, found, first, cut, i, wrong, best, at) {
  best = -1
  for (cut = count; cut > 0; cut--) # the whole first, so that no change is preferred to an equal one
    for (first = -1; first <= 1; first += 2) { # -1: Ulysses
      wrong = 0
      for (i = 1; i <= count; i++)
        if ((gap[i] < 0 ? -1 : 1) != (i <= cut ? first : -first)) wrong += distance(gap[i])
      if (best >= 0 && wrong >= best) continue
      best = wrong
      at = cut
      found["from"] = first < 0 ? "ulysses" : "ring"
      found["to"] = first < 0 ? "ring" : "ulysses"
    }
  if (at == count) return 0
  found["at"] = exp(log(length_of[at]) + log(length_of[at + 1] / length_of[at]) * gap[at] / (gap[at] - gap[at + 1]))
  return 1
}

# Lengths of a group, and log(Ulysses / ring) at each: which is "predicted", "median" or a repeat's number.
function curve(group, which, length_of, gap, i, u, r, count) {
  count = length_count[group]
  for (i = 1; i <= count; i++) {
    length_of[i] = lengths[group, i]
    u = group SUBSEP length_of[i] SUBSEP "ulysses"
    r = group SUBSEP length_of[i] SUBSEP "ring"
    if (which == "predicted") gap[i] = log(predicted[u] / predicted[r])
    else if (which == "median") gap[i] = log(median[u] / median[r])
    else gap[i] = log(seconds[u, which] / seconds[r, which])
  }
  return count
}

# Least and greatest length over the repeats that change from `from`, into range[1], range[2]; how many they are.
function spread_of(group, from, range, i, count, length_of, gap, found, alike) {
  alike = 0
  for (i = 1; i <= repeats_of[group]; i++) {
    count = curve(group, i, length_of, gap)
    if (!change(count, length_of, gap, found) || found["from"] != from) continue
    if (!alike || found["at"] < range[1]) range[1] = found["at"]
    if (!alike || found["at"] > range[2]) range[2] = found["at"]
    alike++
  }
  return alike
}

# The change of one curve as words, and as JSON into side_json.
function crossing_words(group, which, count, length_of, gap, found, words, range, alike) {
  count = curve(group, which, length_of, gap)
  side_json = "null"
  if (!change(count, length_of, gap, found)) return name(found["from"]) " throughout"
  words = sprintf("%s to %s at %.0f", name(found["from"]), name(found["to"]), found["at"])
  side_json = sprintf("{\"from\": \"%s\", \"to\": \"%s\", \"seq_tokens\": %.0f", found["from"], found["to"], found["at"])
  if (which == "median") {
    alike = spread_of(group, found["from"], range)
    if (alike) words = words sprintf(" (%.0f-%.0f in %d of %d)", range[1], range[2], alike, repeats_of[group])
    side_json = side_json sprintf(", \"low_tokens\": %s, \"high_tokens\": %s, \"repeats_alike\": %d",
                                  alike ? sprintf("%.0f", range[1]) : "null", alike ? sprintf("%.0f", range[2]) : "null", alike)
  }
  side_json = side_json "}"
  return words
}

{
  group = $1 SUBSEP $2 SUBSEP $3
  key = group SUBSEP $4 SUBSEP $5
  if (!(group in length_count)) groups[++group_count] = group
  if (!((group, $4) in known)) {
    known[group, $4] = 1
    lengths[group, ++length_count[group]] = $4 + 0
  }
  predicted[key] = $7
  seconds[key, ++repeats[key]] = $8
  if (repeats[key] > repeats_of[group]) repeats_of[group] = repeats[key]
  network = $1 SUBSEP $2
  if (!(network in sent)) networks[++network_count] = network
  payload[network] += $9
  sent[network] += $10
}

function json_kind(key) {
  return sprintf("{\"measured_s\": %.6g, \"low_s\": %.6g, \"high_s\": %.6g, \"predicted_s\": %.6g}", median[key],
                 least[key], greatest[key], predicted[key])
}

function print_rows(g, i, group, part, u, r, apart, measured, expected) {
  printf "%5s  %-7s %3s  %6s  %28s  %28s  %-8s %s\n", "hosts", "rate", "KV", "tokens", "Ulysses ms (low-high)   pred.",
         "ring ms (low-high)   pred.", "faster", "predicted"
  for (g = 1; g <= group_count; g++) {
    group = groups[g]
    split(group, part, SUBSEP)
    for (i = 1; i <= length_count[group]; i++) {
      u = group SUBSEP lengths[group, i] SUBSEP "ulysses"
      r = group SUBSEP lengths[group, i] SUBSEP "ring"
      summarize(u)
      summarize(r)
      apart = least[u] > greatest[r] || least[r] > greatest[u]
      measured = winner(median[u], median[r])
      expected = winner(predicted[u], predicted[r])
      rows_apart += apart
      rows_right += apart && measured == expected
      errors[++error_count] = distance(predicted[u] / median[u] - 1)
      errors[++error_count] = distance(predicted[r] / median[r] - 1)
      printf "%5d  %-7s %3d  %6d  %7.1f (%5.1f-%6.1f) %6.1f  %7.1f (%5.1f-%6.1f) %6.1f  %-8s %s\n", part[1], part[2],
             part[3], lengths[group, i], 1e3 * median[u], 1e3 * least[u], 1e3 * greatest[u], 1e3 * predicted[u],
             1e3 * median[r], 1e3 * least[r], 1e3 * greatest[r], 1e3 * predicted[r],
             (apart ? "" : "~") name(measured), name(expected)
      rows_json = rows_json (rows_json == "" ? "" : ",\n  ") \
        sprintf("{\"hosts\": %d, \"rate\": \"%s\", \"kv_heads\": %d, \"seq_tokens\": %d, \"repeats\": %d,\n   \"ulysses\": %s,\n   \"ring\": %s,\n   \"faster_measured\": \"%s\", \"faster_predicted\": \"%s\", \"beyond_spread\": %s}",
                part[1], part[2], part[3], lengths[group, i], repeats_of[group], json_kind(u), json_kind(r), measured,
                expected, apart ? "true" : "false")
    }
  }
}

function print_crossings(g, group, part, words, expected, measured_json) {
  printf "\n%5s  %-7s %3s  %-44s %s\n", "hosts", "rate", "KV", "crossover measured, tokens (repeats)", "predicted"
  for (g = 1; g <= group_count; g++) {
    group = groups[g]
    split(group, part, SUBSEP)
    words = crossing_words(group, "median")
    measured_json = side_json
    expected = crossing_words(group, "predicted")
    printf "%5d  %-7s %3d  %-44s %s\n", part[1], part[2], part[3], words, expected
    crossings_json = crossings_json (g > 1 ? ",\n  " : "") \
      sprintf("{\"hosts\": %d, \"rate\": \"%s\", \"kv_heads\": %d, \"measured\": %s, \"predicted\": %s}", part[1],
              part[2], part[3], measured_json, side_json)
  }
}

function print_interfaces(i, part, off) {
  printf "\n%5s  %-7s %18s %18s\n", "hosts", "rate", "TCP payload bytes", "predicted"
  for (i = 1; i <= network_count; i++) {
    split(networks[i], part, SUBSEP)
    off = payload[networks[i]] / sent[networks[i]] - 1
    printf "%5d  %-7s %18.0f %18.0f  %+.2f %%\n", part[1], part[2], payload[networks[i]], sent[networks[i]], 100 * off
    if (off > 0.02 || off < -0.02) bytes_off = 1
    interfaces_json = interfaces_json (i > 1 ? ",\n  " : "") \
      sprintf("{\"hosts\": %d, \"rate\": \"%s\", \"payload_bytes\": %.0f, \"predicted_bytes\": %.0f}", part[1], part[2],
              payload[networks[i]], sent[networks[i]])
  }
}

END {
  if (!group_count) exit 1
  print_rows()
  print_crossings()
  print_interfaces()
  sort(errors, error_count)
  printf "\nfaster kind predicted: right in %d of %d rows that differ by more than their repeats (~: less); step times off by %.0f %% (median), %.0f %% (nine in ten)\n",
         rows_right, rows_apart, 100 * middle(errors, error_count), 100 * errors[int(error_count * 0.9 + 0.5)]
  printf "{\"schema\": \"spplan.lab/1\", \"processors\": %d, \"idle_share\": %.2f, \"query_heads\": 8,\n \"rows\": [\n  %s],\n \"crossovers\": [\n  %s],\n \"interfaces\": [\n  %s]}\n",
         processors, idle / 100, rows_json, crossings_json, interfaces_json > json
  exit bytes_off ? 5 : 0
}
