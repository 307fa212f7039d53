import io.apicurio.registry.utils.converter.avro.AvroData;
import io.debezium.data.Bits;
import io.debezium.data.Envelope;
import io.debezium.data.Uuid;
import io.debezium.data.VariableScaleDecimal;
import io.debezium.time.*;
import java.io.ByteArrayOutputStream;
import java.math.BigDecimal;
import java.time.Instant;
import java.util.*;
import org.apache.avro.generic.GenericDatumWriter;
import org.apache.avro.io.EncoderFactory;
import org.apache.kafka.connect.data.*;
import org.apache.kafka.connect.data.Date;
import org.apache.kafka.connect.data.Decimal;
import org.apache.kafka.connect.json.JsonConverter;

/**
 * Events as Debezium makes them, in Avro by Apicurio's converter and as JSON with their schema: recorded_avro.jsonl.
 *
 * <p>With the jars of io.apicurio:apicurio-registry-utils-converter:2.6.13.Final in lib, and those that .ci/kafka.sh
 * fetches: java -cp "lib/*:build/kafka/connect/*" tests/support/RecordedAvro.java > tests/support/recorded_avro.jsonl
 */
public class RecordedAvro {
    static final AvroData AVRO = new AvroData(100);
    static final JsonConverter JSON = new JsonConverter();

    static String avro(Schema schema, Object value) throws Exception {
        org.apache.avro.Schema written = AVRO.fromConnectSchema(schema);
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        var encoder = EncoderFactory.get().binaryEncoder(out, null);
        new GenericDatumWriter<Object>(written).write(AVRO.fromConnectData(schema, value), encoder);
        encoder.flush();
        String body = Base64.getEncoder().encodeToString(out.toByteArray());
        return "{\"schema\": " + written + ", \"body\": \"" + body + "\"}";
    }

    static void told(Schema keySchema, Object key, Schema schema, Object value) throws Exception {
        String json = new String(JSON.fromConnectData("t", schema, value), "UTF-8");
        String own = new String(JSON.fromConnectData("t", keySchema, key), "UTF-8");
        System.out.println("{\"key\": " + avro(keySchema, key) + ", \"value\": " + avro(schema, value)
            + ", \"json_key\": " + own + ", \"json\": " + json + "}");
    }

    static Struct row(Schema schema, int id, boolean full) {
        Struct row = new Struct(schema).put("id", id).put("flag", full).put("total", new BigDecimal("12.30"));
        if (!full) {
            return row;
        }
        row.put("tiny", (byte) -3).put("small", (short) 300).put("big", 1L << 40).put("real", 1.5f).put("dbl", 0.1);
        row.put("txt", "gr\u00fc\u00df \ud83d\ude00").put("raw", new byte[] {0, -1, 7});
        row.put("price", new BigDecimal("-1234567.89"));
        row.put("any", VariableScaleDecimal.fromLogical(VariableScaleDecimal.optionalSchema(), new io.debezium.data.SpecialValueDecimal(new BigDecimal("3.14159"))));
        row.put("day", 20_000).put("cday", new java.util.Date(86_400_000L * 9));
        row.put("ms", 1_700_000_000_123L).put("us", 1_700_000_000_123_456L).put("ns", 1_700_000_000_123_456_789L);
        row.put("cts", new java.util.Date(1_700_000_000_123L)).put("zoned", "2026-01-02T03:04:05.678901Z");
        row.put("tms", 3_600_001).put("tus", 3_600_000_001L).put("ctime", new java.util.Date(3_600_001L)).put("ztime", "10:11:12.5Z");
        row.put("uid", "0b9b8f3e-0000-4000-8000-000000000001").put("bits", new byte[] {5});
        row.put("words", Arrays.asList("a", null, "b")).put("sums", Arrays.asList(new BigDecimal("1.50"), null));
        Map<String, String> tags = new LinkedHashMap<>();
        tags.put("k", "v");
        tags.put("n", null);
        row.put("tags", tags);
        Struct place = new Struct(schema.field("place").schema()).put("x", 1.25).put("at", 20_001).put("label", null);
        return row.put("place", place);
    }

    public static void main(String[] args) throws Exception {
        JSON.configure(Map.of("schemas.enable", "true"), false);
        Schema place = SchemaBuilder.struct().name("shop.public.orders.Place").optional()
            .field("x", Schema.FLOAT64_SCHEMA).field("at", io.debezium.time.Date.schema())
            .field("label", Schema.OPTIONAL_STRING_SCHEMA).build();
        Schema rows = SchemaBuilder.struct().name("shop.public.orders.Value").optional()
            .field("id", Schema.INT32_SCHEMA)
            .field("flag", SchemaBuilder.bool().defaultValue(true).build())
            .field("total", Decimal.builder(2).defaultValue(new BigDecimal("0.00")).parameter("connect.decimal.precision", "8").build())
            .field("tiny", Schema.OPTIONAL_INT8_SCHEMA).field("small", Schema.OPTIONAL_INT16_SCHEMA)
            .field("big", Schema.OPTIONAL_INT64_SCHEMA).field("real", Schema.OPTIONAL_FLOAT32_SCHEMA)
            .field("dbl", Schema.OPTIONAL_FLOAT64_SCHEMA).field("txt", Schema.OPTIONAL_STRING_SCHEMA)
            .field("raw", Schema.OPTIONAL_BYTES_SCHEMA)
            .field("price", Decimal.builder(2).optional().parameter("connect.decimal.precision", "10").build())
            .field("any", VariableScaleDecimal.optionalSchema())
            .field("day", io.debezium.time.Date.builder().optional().build()).field("cday", Date.builder().optional().build())
            .field("ms", io.debezium.time.Timestamp.builder().optional().build())
            .field("us", MicroTimestamp.builder().optional().build()).field("ns", NanoTimestamp.builder().optional().build())
            .field("cts", org.apache.kafka.connect.data.Timestamp.builder().optional().build())
            .field("zoned", ZonedTimestamp.builder().optional().build())
            .field("tms", io.debezium.time.Time.builder().optional().build()).field("tus", MicroTime.builder().optional().build())
            .field("ctime", org.apache.kafka.connect.data.Time.builder().optional().build())
            .field("ztime", ZonedTime.builder().optional().build())
            .field("uid", Uuid.builder().optional().build()).field("bits", Bits.builder(4).optional().build())
            .field("words", SchemaBuilder.array(Schema.OPTIONAL_STRING_SCHEMA).optional().build())
            .field("sums", SchemaBuilder.array(Decimal.builder(2).optional().build()).optional().build())
            .field("tags", SchemaBuilder.map(Schema.STRING_SCHEMA, Schema.OPTIONAL_STRING_SCHEMA).optional().build())
            .field("place", place)
            .build();
        Schema source = SchemaBuilder.struct().name("io.debezium.connector.postgresql.Source")
            .field("connector", Schema.STRING_SCHEMA).field("db", Schema.STRING_SCHEMA)
            .field("table", Schema.STRING_SCHEMA).field("lsn", Schema.OPTIONAL_INT64_SCHEMA).build();
        Envelope envelope = Envelope.defineSchema().withName("shop.public.orders.Envelope")
            .withRecord(rows).withSource(source).build();
        Schema keys = SchemaBuilder.struct().name("shop.public.orders.Key").field("id", Schema.INT32_SCHEMA).build();
        Struct from = new Struct(source).put("connector", "postgresql").put("db", "shop").put("table", "orders");
        Instant now = Instant.ofEpochMilli(1_700_000_000_000L);
        Struct one = row(rows, 1, true), two = row(rows, 2, false), changed = row(rows, 1, true).put("txt", null).put("big", -7L);
        Schema whole = envelope.schema();
        told(keys, new Struct(keys).put("id", 1), whole, envelope.read(one, from, now));
        told(keys, new Struct(keys).put("id", 2), whole, envelope.create(two, from, now));
        told(keys, new Struct(keys).put("id", 1), whole, envelope.update(one, changed, from, now));
        told(keys, new Struct(keys).put("id", 2), whole, envelope.delete(two, from, now));
    }
}
