curl -s https://sluice.example/v1/chat/completions -H "Authorization: Bearer $SLUICE_API_KEY" -H 'Content-Type: application/json' \
  -d '{"model":"CHAT_MODEL","messages":[{"role":"user","content":"Hello"}]}'
