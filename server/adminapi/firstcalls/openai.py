import os
from openai import OpenAI

client = OpenAI(base_url="https://sluice.example/v1", api_key=os.environ["SLUICE_API_KEY"])
answer = client.chat.completions.create(model="CHAT_MODEL", messages=[{"role": "user", "content": "Hello"}])
print(answer.choices[0].message.content)
