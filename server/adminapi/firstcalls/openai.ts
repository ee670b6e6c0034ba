import OpenAI from "openai";

const client = new OpenAI({ baseURL: "https://sluice.example/v1", apiKey: process.env.SLUICE_API_KEY });
const answer = await client.chat.completions.create({ model: "CHAT_MODEL", messages: [{ role: "user", content: "Hello" }] });
console.log(answer.choices[0].message.content);
