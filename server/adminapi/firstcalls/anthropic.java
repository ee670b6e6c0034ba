import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;

public class FirstCall {
    public static void main(String[] args) throws Exception {
        String body = """
            {"model":"CHAT_MODEL","max_tokens":200,"messages":[{"role":"user","content":"Hello"}]}
            """;
        HttpRequest request = HttpRequest.newBuilder(URI.create("https://sluice.example/v1/messages"))
            .header("x-api-key", System.getenv("SLUICE_API_KEY"))
            .header("anthropic-version", "2023-06-01")
            .header("Content-Type", "application/json")
            .POST(HttpRequest.BodyPublishers.ofString(body))
            .build();
        HttpResponse<String> answer = HttpClient.newHttpClient().send(request, HttpResponse.BodyHandlers.ofString());
        System.out.println(answer.statusCode() + " " + answer.body());
    }
}
