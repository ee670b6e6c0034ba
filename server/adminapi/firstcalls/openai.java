import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;

public class FirstCall {
    public static void main(String[] args) throws Exception {
        String body = """
            {"model":"CHAT_MODEL","messages":[{"role":"user","content":"Hello"}]}
            """;
        HttpRequest request = HttpRequest.newBuilder(URI.create("https://sluice.example/v1/chat/completions"))
            .header("Authorization", "Bearer " + System.getenv("SLUICE_API_KEY"))
            .header("Content-Type", "application/json")
            .POST(HttpRequest.BodyPublishers.ofString(body))
            .build();
        HttpResponse<String> answer = HttpClient.newHttpClient().send(request, HttpResponse.BodyHandlers.ofString());
        System.out.println(answer.statusCode() + " " + answer.body());
    }
}
