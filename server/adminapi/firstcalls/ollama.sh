curl -s https://sluice.example/api/chat -H "Authorization: Bearer $SLUICE_API_KEY" \
  -d '{"model":"CHAT_MODEL","stream":false,"messages":[{"role":"user","content":"Hello"}]}'
