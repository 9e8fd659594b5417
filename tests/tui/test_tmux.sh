#!/usr/bin/env bash
# The real program in a real terminal: start, edit the sequence, filter, validate, resize, NO_COLOR, LC_ALL=C, every
# signal that ends, stops or continues it, quit. However it ends, the terminal is as it was before.
# Waits for a text with a deadline, never for a time. Skipped where tmux or the interface is absent.
set -euo pipefail
command -v tmux >/dev/null || { echo "tmux is not installed"; exit 77; }
"$SPPLAN" --version | grep -q 'curses' || { echo "built without ncurses"; exit 77; }
locale -a 2>/dev/null | grep -qi '^c\.utf-\?8$' || { echo "no C.UTF-8 locale"; exit 77; }

work=$(mktemp -d)
export HOME=$work XDG_CONFIG_HOME=$work # nobody's settings
unset NO_COLOR SPPLAN_GPU LC_ALL
runs=0 # a server of its own for each: one that is told to end takes its time
tm() { tmux -f /dev/null -S "$work/socket$runs" "$@"; }
trap 'tm kill-server 2>/dev/null || true; rm -rf "$work"' EXIT

screen() { tm capture-pane -p "$@"; }
fail() { echo "$1; the screen is:"; screen || true; exit 1; }
# Until the screen holds the text; at most 20 s.
wait_for() {
  local end=$((SECONDS + 20))
  until screen | grep -qF -- "$1"; do
    [ $SECONDS -lt $end ] || fail "no '$1'"
    read -rt 0.05 <> <(:) || true
  done
}
wait_gone() {
  local end=$((SECONDS + 20))
  while screen | grep -qF -- "$1"; do
    [ $SECONDS -lt $end ] || fail "still '$1'"
    read -rt 0.05 <> <(:) || true
  done
}
# The process the pane's shell started.
program() {
  local shell
  shell=$(tm display-message -p '#{pane_pid}')
  awk '{print $1}' "/proc/$shell/task/$shell/children"
}
# start COLS ROWS ENVIRONMENT... : a shell line that runs the program and says how it ended
start() {
  local cols=$1 rows=$2
  shift 2
  [ $runs = 0 ] || tm kill-server 2>/dev/null || true
  runs=$((runs + 1))
  tm new-session -d -x "$cols" -y "$rows" \
    "env $* '$SPPLAN' tui --model qwen2.5-7b --seq 32k --gpus 8 --gpu h100-80gb --framework ms-swift; echo \"ended with \$?\"; exec sleep 60"
  tm set-option -g remain-on-exit on
  wait_for "Plans"
  wait_for "layouts"
}

start 80 24 LC_ALL=C.UTF-8
wait_for "32k tokens"
tm send-keys t C-u 64k Enter
wait_for "64k tokens"
tm send-keys '['
wait_for "32k tokens"
tm send-keys Tab / ulysses Enter
wait_for "filter: ulysses"
tm send-keys Escape
wait_gone "filter: ulysses"
tm send-keys ':' 'gpus 16' Enter
wait_for "16 x H100"
tm send-keys '?'
wait_for "edit the sequence length"
tm send-keys '?'
wait_gone "Esc closes"
tm resize-window -x 120 -y 40
wait_for "on the front"
tm resize-window -x 20 -y 5
wait_for "spplan needs"
tm resize-window -x 40 -y 12
wait_for "quit"
tm resize-window -x 80 -y 24
wait_for "Job"
screen | grep -qF "│" || fail "no line characters under UTF-8"
screen -e | grep -q $'\033\\[3[0-9]m\|\033\\[[0-9;]*3[1-6]m' || fail "no colours"
tm send-keys e C-u "$work/plan.json" Enter
wait_for "saved to"
grep -q 'spplan\.plan/1' "$work/plan.json" || fail "no JSON in the file"
tm send-keys q
wait_for "ended with 0"

start 80 24 LC_ALL=C.UTF-8 NO_COLOR=1
if screen -e | grep -q $'\033\\[[0-9;]*3[1-6]m'; then fail "colours in spite of NO_COLOR"; fi
tm send-keys C-c
wait_for "ended with 0"

start 80 24 LC_ALL=C
if screen | LC_ALL=C grep -q '[^ -~]'; then fail "more than ASCII under LC_ALL=C"; fi
kill -TERM "$(program)"
wait_for "ended with 130"

# The modes of the terminal and its screen are those before the program began.
terminal_is_as_before() {
  local end=$((SECONDS + 20)) modes
  until modes=$(tm display-message -p '#{alternate_on}#{mouse_any_flag}#{cursor_flag}') && [ "$modes" = 001 ]; do
    [ $SECONDS -lt $end ] || fail "$1: alternate screen, mouse, cursor are $modes"
    read -rt 0.05 <> <(:) || true
  done
  rm -f "$work/after"
  tm send-keys "stty -g >$work/noted; mv $work/noted $work/after" Enter
  end=$((SECONDS + 20))
  until [ -s "$work/after" ]; do
    [ $SECONDS -lt $end ] || fail "$1: the shell does not answer"
    read -rt 0.05 <> <(:) || true
  done
  cmp -s "$work/before" "$work/after" || fail "$1: stty is $(cat "$work/after"), was $(cat "$work/before")"
}
# in_shell: an interactive shell with job control, in which the program is a job
in_shell() {
  tm kill-server 2>/dev/null || true
  runs=$((runs + 1))
  tm new-session -d -x 80 -y 24 "env LC_ALL=C.UTF-8 PS1='> ' bash --norc --noprofile -i"
  wait_for ">"
  tm send-keys "stty -g >$work/before; clear; echo rea''dy" Enter
  wait_for "ready"
  tm send-keys "'$SPPLAN' tui --model qwen2.5-7b --seq 32k --gpus 8 --gpu h100-80gb --framework ms-swift; echo ended with \$?" Enter
  wait_for "layouts"
}
for signal in INT TERM HUP QUIT SEGV BUS FPE ILL ABRT; do
  in_shell
  kill -"$signal" "$(program)"
  wait_for "ended with 1"
  terminal_is_as_before "$signal"
done
for stop in key signal; do
  in_shell
  pid=$(program)
  if [ $stop = key ]; then tm send-keys C-z; else kill -TSTP "$pid"; fi
  wait_for "Stopped"
  terminal_is_as_before "stopped by $stop"
  tm send-keys "fg" Enter
  wait_for "layouts"
  tm send-keys ']'
  wait_for "64k tokens"
  tm send-keys q
  wait_gone "Plans"
  terminal_is_as_before "quit after $stop"
done
in_shell
pid=$(program)
kill -STOP "$pid"
wait_for "Stopped"
tm send-keys "clear; fg" Enter
wait_for "layouts"
tm send-keys v
wait_for "a step ("
tm send-keys Escape
wait_for "passed, 0 FAILED"
tm send-keys Escape q
wait_gone "Plans"
terminal_is_as_before "quit after SIGSTOP"
tm kill-server
"$SPPLAN" tui </dev/null >"$work/out" 2>"$work/err" && fail "a tui without a terminal" || rc=$?
[ "$rc" = 2 ] || fail "exit $rc without a terminal"
[ "$(wc -l <"$work/err")" = 1 ] && grep -q -- '--json' "$work/err" || fail "no hint without a terminal"
[ ! -s "$work/out" ] || fail "something was drawn without a terminal"
echo "the terminal interface works end to end"
