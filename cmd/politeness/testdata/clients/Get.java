import java.io.*;
import java.net.*;
import java.net.http.*;
import java.nio.file.*;
import java.security.KeyStore;
import java.security.cert.*;
import java.util.concurrent.*;
import javax.net.ssl.*;

public class Get {
    public static void main(String[] urls) throws Exception {
        URI proxy = new URI(System.getenv("http_proxy"));
        KeyStore trusted = KeyStore.getInstance(KeyStore.getDefaultType());
        trusted.load(null);
        try (InputStream in = Files.newInputStream(Path.of(System.getenv("CA")))) {
            trusted.setCertificateEntry("proxy", CertificateFactory.getInstance("X.509").generateCertificate(in));
        }
        TrustManagerFactory managers = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
        managers.init(trusted);
        SSLContext secure = SSLContext.getInstance("TLS");
        secure.init(null, managers.getTrustManagers(), null);
        HttpClient client = HttpClient.newBuilder().sslContext(secure)
            .proxy(ProxySelector.of(new InetSocketAddress(proxy.getHost(), proxy.getPort()))).build();
        ExecutorService pool = Executors.newFixedThreadPool(8);
        for (String url : urls) {
            pool.submit(() -> {
                try {
                    HttpRequest request = HttpRequest.newBuilder(new URI(url)).build();
                    System.out.println(client.send(request, HttpResponse.BodyHandlers.ofString()).statusCode() + " " + url);
                } catch (Exception e) {
                    System.out.println(e + " " + url);
                }
            });
        }
        pool.shutdown();
        pool.awaitTermination(10, TimeUnit.MINUTES);
        System.exit(0);
    }
}
