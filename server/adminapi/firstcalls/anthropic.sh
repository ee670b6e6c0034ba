curl -s https://sluice.example/v1/messages -H "x-api-key: $SLUICE_API_KEY" -H 'anthropic-version: 2023-06-01' -H 'Content-Type: application/json' \
  -d '{"model":"CHAT_MODEL","max_tokens":200,"messages":[{"role":"user","content":"Hello"}]}'
