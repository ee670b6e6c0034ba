curl -s https://sluice.example/v2/models/EMBED_MODEL/infer -H "Authorization: Bearer $SLUICE_API_KEY" -H 'Content-Type: application/json' \
  -d '{"inputs":[{"name":"input","datatype":"BYTES","shape":[1],"data":["Hello"]}]}'
