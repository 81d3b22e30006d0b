# Behind a program that ends TLS and sends `x-forwarded-proto`.
vcl 4.1;
backend default {
    .host = "127.0.0.1";
    .port = "8809";
}
