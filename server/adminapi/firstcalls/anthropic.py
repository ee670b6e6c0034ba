import os
from anthropic import Anthropic

client = Anthropic(base_url="https://sluice.example", api_key=os.environ["SLUICE_API_KEY"])
message = client.messages.create(model="CHAT_MODEL", max_tokens=200, messages=[{"role": "user", "content": "Hello"}])
print(message.content[0].text)
