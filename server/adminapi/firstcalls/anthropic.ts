import Anthropic from "@anthropic-ai/sdk";

const client = new Anthropic({ baseURL: "https://sluice.example", apiKey: process.env.SLUICE_API_KEY });
const message = await client.messages.create({ model: "CHAT_MODEL", max_tokens: 200, messages: [{ role: "user", content: "Hello" }] });
console.log(message.content.map((block) => (block.type === "text" ? block.text : "")).join(""));
