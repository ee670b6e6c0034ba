curl -s https://sluice.example/v2/rerank -H "Authorization: Bearer $SLUICE_API_KEY" -H 'Content-Type: application/json' \
  -d '{"model":"RERANK_MODEL","query":"fees","documents":["Opening hours","Where fees are paid"],"top_n":1}'
