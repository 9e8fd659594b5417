/* The words in which records name kernels, layers and ways to cut a sequence. */
#include <ctype.h>
#include <string.h>

#include "model/words.h"
#include "planner/corpus_reading.h"

bool spp_text_starts(const char *text, const char *word) {
  for (; *word; text++, word++)
    if (tolower((unsigned char)*text) != tolower((unsigned char)*word)) return false;
  return true;
}

int spp_record_attention(const char *attention) {
  static const struct {
    const char *word;
    enum spp_attention_impl impl;
  } words[] = {{"fa2 (triton", SPP_ATTN_FA1}, {"fa1", SPP_ATTN_FA1},
               {"unfused", SPP_ATTN_EAGER},   {"flashattention-3", SPP_ATTN_FA3},
               {"fa3", SPP_ATTN_FA3},         {"flash_attention_3", SPP_ATTN_FA3},
               {"te", SPP_ATTN_TE},           {"cudnn", SPP_ATTN_TE},
               {"fa2", SPP_ATTN_FA2},         {"flash", SPP_ATTN_FA2},
               {"sdpa", SPP_ATTN_SDPA},       {"eager", SPP_ATTN_EAGER}};
  for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
    if (spp_text_starts(attention, words[i].word)) return (int)words[i].impl;
  return SPP_UNSET;
}

int spp_record_sp_kind(const char *text) {
  static const struct {
    const char *word;
    enum spp_sp_kind kind;
  } words[] = {{"hybrid", SPP_SP_HYBRID},
               {"usp", SPP_SP_HYBRID},
               {"a2a+p2p", SPP_SP_HYBRID},
               {"ulysses", SPP_SP_ULYSSES},
               {"a2a", SPP_SP_ULYSSES},
               {"all-to-all", SPP_SP_ULYSSES},
               {"allgather", SPP_SP_ALLGATHER},
               {"all_gather", SPP_SP_ALLGATHER},
               {"all-gather", SPP_SP_ALLGATHER},
               {"ring", SPP_SP_RING},
               {"p2p", SPP_SP_RING}};
  int found = spp_words_find(SPP_WORDS_SP_KIND, text);
  for (size_t i = 0; found < 0 && i < sizeof words / sizeof words[0]; i++)
    if (spp_text_contains(text, words[i].word)) found = (int)words[i].kind;
  return found;
}

static bool is_target(const char *text, size_t length, const char *word) {
  size_t n = strlen(word);
  return !strncmp(text, word, n) && (length == n || (length == n + 5 && !strncmp(text + n, "_proj", 5)));
}

unsigned spp_record_targets(const char *text) {
  static const struct {
    const char *word;
    unsigned bits;
  } words[] = {{"q", SPP_LORA_Q},
               {"k", SPP_LORA_K},
               {"v", SPP_LORA_V},
               {"o", SPP_LORA_O},
               {"output", SPP_LORA_O},
               {"gate", SPP_LORA_GATE},
               {"up", SPP_LORA_UP},
               {"down", SPP_LORA_DOWN},
               {"attention_qkv", SPP_LORA_Q | SPP_LORA_K | SPP_LORA_V},
               {"linear_qkv", SPP_LORA_Q | SPP_LORA_K | SPP_LORA_V},
               {"linear_proj", SPP_LORA_O},
               {"linear_fc1", SPP_LORA_GATE | SPP_LORA_UP},
               {"linear_fc2", SPP_LORA_DOWN}};
  enum { COUNT = sizeof words / sizeof words[0] };
  unsigned bits = 0;
  while (*text && *text != '(') {
    size_t length = strcspn(text, ", ("), i = 0;
    if (spp_text_starts(text, "and shared expert"))
      break; /* its adapters are small, and no setting of their own */
    while (i < COUNT && !is_target(text, length, words[i].word))
      i++;
    if (i == COUNT) return SPP_LORA_ALL_LINEAR;
    bits |= words[i].bits;
    text += length;
    text += strspn(text, ", ");
  }
  return bits ? bits : SPP_LORA_ALL_LINEAR;
}
