//! Every way to be wrong: one change to the full file each.

use super::{FULL, refused};

/// One change to [`FULL`], and the problems it makes: `(path, part of message or hint)`.
type Case = (&'static str, &'static str, &'static [(&'static str, &'static str)]);

#[rustfmt::skip]
const WRONG: &[Case] = &[
    // --- the document
    ("[control]", "[contrl]", &[("contrl", "did you mean `control`?")]),
    ("[gateway]\nid = \"gw-1\"", "gateway = 7\n[x]\nid = \"gw-1\"", &[("gateway", "must be a table, not an integer"), ("x", "known: gateway")]),
    ("id = \"gw-1\"\n", "", &[("gateway.id", "is missing")]),
    ("id = \"gw-1\"", "id = \"\"", &[("gateway.id", "is empty")]),
    ("id = \"gw-1\"", "id = true", &[("gateway.id", "must be a string, not a bool")]),
    ("id = \"gw-1\"", "id = \"a\\nb\"", &[("gateway.id", "without control characters")]),
    ("\"site/tide\"", "\"site/#\"", &[("gateway.topic_prefix", "no wildcards")]),
    ("\"site/tide\"", "\"/tide\"", &[("gateway.topic_prefix", "no empty level")]),
    // --- brokers
    ("\"mqtt://10.0.0.5:1884\"", "\"10.0.0.5\"", &[("devices.broker", "\"mqtt://10.0.0.5\"")]),
    ("\"mqtt://10.0.0.5:1884\"", "\"mqtt://u:p@10.0.0.5\"", &[("devices.broker", "password_file")]),
    ("\"mqtt://10.0.0.5:1884\"", "\"mqtt://10.0.0.5:0\"", &[("devices.broker", "1 to 65535")]),
    ("\"mqtt://10.0.0.5:1884\"", "\"amqp://10.0.0.5\"", &[("devices.broker", "`amqp` is not supported")]),
    ("broker = \"mqtt://10.0.0.5:1884\"\n", "", &[("devices.broker", "is missing")]),
    ("username = \"x\"\n", "", &[("devices.password_file", "add `username`")]),
    ("keep_alive = \"30s\"", "keep_alive = \"1s\"", &[("devices.keep_alive", "must be from 5s to 18h")]),
    ("keep_alive = \"30s\"", "keep-alive = \"30s\"", &[("devices.keep-alive", "did you mean `keep_alive`?")]),
    ("keep_alive = \"30s\"", "password = \"secret\"", &[("devices.password", "did you mean `password_file`?")]),
    ("keep_alive = \"30s\"", "ca_file = \"/ca\"", &[("devices.ca_file", "without TLS")]),
    ("ca_file = \"/etc/tidegate/ca.pem\"\n", "", &[("uplink.ca_file", "whom to trust")]),
    ("key_file = \"/etc/tidegate/key.pem\"\n", "", &[("uplink.cert_file", "add `key_file`")]),
    ("broker = \"mqtts://cloud.example\"\nclient_id = \"there\"", "broker = \"mqtts://10.0.0.5:1884\"\nclient_id = \"here\"", &[("uplink.client_id", "each connection would end the other")]),
    ("client_id = \"there\"", "username = \"u\"", &[("uplink.username_file", "which one?")]),
    ("protocol = \"5\"", "protocol = \"3.1\"", &[("uplink.protocol", "\"3.1.1\" or \"5\"")]),
    ("protocol = \"5\"", "protocol = 5", &[("uplink.protocol", "not an integer")]),
    ("compression = \"zstd\"", "compression = \"gzip\"", &[("uplink.compression", "\"none\" or \"zstd\"")]),
    ("alpn = [\"x-amzn-mqtt-ca\"]", "alpn = []", &[("uplink.alpn", "1 to 8 names")]),
    ("alpn = [\"x-amzn-mqtt-ca\"]", "alpn = \"mqtt\"", &[("uplink.alpn", "must be a list")]),
    ("keep_alive = \"30s\"", "alpn = [\"mqtt\"]", &[("devices.alpn", "belongs to [uplink]")]),
    ("\"mqtt.example\"", "\"mqtts://mqtt.example\"", &[("uplink.server_name", "without scheme and port")]),
    ("\"http://gw%207@proxy.site:3128\"", "\"http://proxy.site:3128\"", &[("uplink.proxy_password_file", "no user name")]),
    ("\"http://gw%207@proxy.site:3128\"", "\"http://gw:secret@proxy.site:3128\"", &[("uplink.proxy_password_file", "has a password too")]),
    ("\"http://gw%207@proxy.site:3128\"", "\"https://proxy.site:3128\"", &[("uplink.proxy", "`https` is not supported")]),
    ("proxy = \"http://gw%207@proxy.site:3128\"\n", "", &[("uplink.proxy_password_file", "add `proxy`")]),
    // --- local
    ("qos = 1", "qos = 2", &[("local.qos", "from 0 to 1")]),
    ("retain = true", "retain = \"yes\"", &[("local.retain", "true or false")]),
    ("topic = \"boiler/state\"", "topic = \"site/{x...}\"", &[("local", "\"boiler\" would read what is written there, site/tide/gw-1/local/")]),
    // --- storage, control
    ("commit_interval = \"500ms\"", "commit_interval = 500", &[("storage.commit_interval", "\"500s\" or \"500ms\"")]),
    ("commit_interval = \"500ms\"", "commit_interval = \"0s\"", &[("storage.commit_interval", "from 10ms to 1m")]),
    ("snapshot_interval = \"60s\"", "snapshot_interval = \"400ms\"", &[("storage.snapshot_interval", "commit_interval (500ms)")]),
    ("max_bytes = \"64KiB\"\nb", "max_bytes = \"64KB\"\nb", &[("outbox.max_bytes", "\"64KiB\"")]),
    ("max_bytes = \"64KiB\"\nb", "max_bytes = \"1KiB\"\nb", &[("outbox.max_bytes", "from 64KiB to 4GiB")]),
    ("\"20%\"", "20", &[("outbox.backlog_share", "a percentage")]),
    ("\"20%\"", "\"100%\"", &[("outbox.backlog_share", "from \"1%\" to \"99%\"")]),
    ("\"20%\"", "\"20\"", &[("outbox.backlog_share", "\"20%\"")]),
    ("messages_per_second = 50", "messages_per_second = 0", &[("outbox.messages_per_second", "from 1 to 1000000")]),
    ("\"7d\"", "\"7s\"", &[("outbox.late.max_age", "from 10s")]),
    ("window = 8", "window = 64", &[("outbox.window", "from 1 to 32")]),
    ("max_bytes = \"64KiB\"\nb", "max_bytes = 65536\nb", &[("outbox.max_bytes", "\"65536B\"")]),
    ("reserve = \"64MiB\"", "reserve = \"4MiB\"", &[("storage.reserve", "from 8MiB to 1GiB")]),
    ("commit_interval_max = \"20s\"", "commit_interval_max = \"1h\"", &[("storage.commit_interval_max", "from 10ms to 10m")]),
    ("commit_interval_max = \"20s\"", "commit_interval_max = \"400ms\"", &[("storage.commit_interval_max", "commit_interval (500ms)")]),
    ("write_budget = \"500MiB\"\n", "", &[("storage.commit_interval_max", "without `write_budget`")]),
    ("write_budget = \"500MiB\"", "write_budget = \"500MB\"", &[("storage.write_budget", "\"500MiB\"")]),
    ("write_budget = \"500MiB\"", "write_budget = \"1KiB\"", &[("storage.write_budget", "from 1MiB to 1024GiB")]),
    ("write_budget = \"500MiB\"", "write_budget = 500", &[("storage.write_budget", "\"500B\"")]),
    ("path = \"/var/lib/tidegate\"\n", "", &[("storage.path", "is missing")]),
    ("/run/tidegate/control.sock", "/0123456789/0123456789/0123456789/0123456789/0123456789/0123456789/0123456789/0123456789/0123456789/0123456789", &[("control.socket", "107 bytes")]),
    // --- streams
    ("name = \"boiler\"", "name = \"climate\"", &[("streams[1].name", "streams[0] has the same name")]),
    ("topic = \"boiler/state\"", "topic = \"boiler/#\"", &[("streams[1].topic", "`{device...}`")]),
    ("device = \"boiler\"\n", "", &[("streams[1].device", "captures no `{device}`")]),
    ("device = \"{site}-{unit}\"\n", "", &[("streams[0].device", "device = \"{site}\"")]),
    ("device = \"{site}-{unit}\"", "device = \"{sit}\"", &[("streams[0].device", "it has: site, unit")]),
    ("format = \"json\"", "format = \"cborr\"", &[("streams[0].format", "did you mean \"cbor\"?")]),
    ("format = \"json\"", "format = \"json\"\nraw = { field = \"t\" }", &[("streams[0].raw", "has no effect without format = \"raw\"")]),
    ("format = \"json\"", "format = \"json\"\nmodel = \"em300-th\"", &[("streams[0].model", "without format = \"milesight\"")]),
    ("format = \"json\"", "format = \"csv\"\ncsv = { separator = \";;\" }", &[("streams[0].csv.separator", "one ASCII character")]),
    ("format = \"json\"", "format = \"milesight\"\nmodel = \"em300th\"", &[("streams[0].model", "did you mean \"em300-th\"?")]),
    ("format = \"json\"", "format = \"raw\"\nraw = { field = \"{room}\" }", &[("streams[0].raw.field", "it has: site, unit")]),
    ("format = \"json\"", "format = \"raw\"\nraw = { words = { ON = \"x\" } }", &[("streams[0].raw.words.ON", "finite number")]),
    ("format = \"json\"", "preset = \"tasmotta\"", &[("streams[0].preset", "did you mean \"tasmota\"?")]),
    ("topic = \"boiler/state\"", "topic = [\"boiler/state\", \"boiler/+/#\"]", &[("streams[1].topic[1]", "`{device...}`")]),
    ("topic = \"boiler/state\"", "topic = []", &[("streams[1].topic", "1 to 32")]),
    ("topic = \"boiler/state\"", "topic = \"boiler/state\"\nignore = \"boiler/{x\"", &[("streams[1].ignore", "whole level")]),
    ("device = \"boiler\"", "device = \"{*1}\"", &[("streams[1].explode", "no place has so many `*`")]),
    ("device = \"boiler\"", "device = \"{/id\"", &[("streams[1].device", "without `}`")]),
    ("device = \"boiler\"", "device = \"boiler\"\nexplode = \"readings\"", &[("streams[1].explode", "\"/readings/*\"")]),
    ("device = \"boiler\"", "device = \"boiler\"\nallow = []", &[("streams[1].allow", "1 to 10000")]),
    ("device = \"boiler\"", "device = \"boiler\"\nlabels = \"north\"", &[("streams[1].labels", "must be a table")]),
    ("device = \"boiler\"", "device = \"boiler\"\nlabels = { site = { map = { a = \"b\" } } }", &[("streams[1].labels.site.from", "is missing")]),
    ("device = \"boiler\"", "device = \"boiler\"\nlabels = { site = { from = \"{x}\", map = { a = \"b\" } } }", &[("streams[1].labels.site.from", "it has: none")]),
    ("device = \"boiler\"", "device = \"boiler\"\nlabels = { \"a b\" = \"north\" }", &[("streams[1].labels.a b", "letters, digits")]),
    ("device = \"boiler\"", "device = \"boiler\"\navailability = [{ device = \"boiler\" }]", &[("streams[1].availability[0].topic", "is missing")]),
    ("device = \"boiler\"", "device = \"boiler\"\navailability = [{ topic = \"boiler/lwt\", device = \"b\", below = \"b\" }]", &[("streams[1].availability[0].device", "exclude each other")]),
    ("device = \"boiler\"", "device = \"boiler\"\navailability = [{ topic = \"boiler/lwt\", online = [] }]", &[("streams[1].availability[0].online", "1 to 32")]),
    ("device = \"boiler\"", "device = \"boiler\"\nfilter = \"temperature >\"", &[("streams[1].filter", "")]),
    ("fields = { temperature", "filter = \"temperatur > 3\"\nfields = { temperature", &[("streams[0].filter", "did you mean `temperature`?")]),
    ("fields = { temperature", "filter = \"label.site == \\\"x\\\"\"\nfields = { temperature", &[("streams[0].filter", "no label `site`")]),
    ("fields = { temperature", "compute = { humidity = \"temperature\" }\nfields = { temperature", &[("streams[0].compute.humidity", "is one of `fields` already")]),
    ("fields = { temperature", "compute = { c = \"[1].all(x, x > 0)\" }\nfields = { temperature", &[("streams[0].compute.c", "")]),
    ("fields = { temperature", "fields_at = \"/object\"\nfields = { temperature", &[("streams[0].fields_at", "where the fields are named")]),
    ("\"/temperature\"", "{ pointer = \"/temperature\", min = 3, max = 2 }", &[("streams[0].fields.temperature.min", "must not be above `max`")]),
    ("\"/temperature\"", "{ pointer = \"/temperature\", scale = \"x\" }", &[("streams[0].fields.temperature.scale", "finite number")]),
    ("\"/temperature\"", "{ pointer = \"/temperature\", type = \"state\", scale = 2 }", &[("streams[0].fields.temperature.scale", "is for numbers")]),
    ("\"/temperature\"", "{ pointer = [\"/t\", \"temp\"] }", &[("streams[0].fields.temperature.pointer[1]", "\"/temp\"")]),
    ("fields = \"all\"", "fields = \"all\"\ntext_numbers = \"unit\"", &[("streams[1].text_numbers", "did you mean \"units\"?")]),
    ("time = { source = \"receive\" }", "time = { source = \"payload\" }", &[("streams[1].time.source", "gives no time of its own")]),
    ("fields = \"all\"", "fields = \"al\"", &[("streams[1].fields", "\"all\" or a table")]),
    ("fields = \"all\"", "fields = [\"a\"]", &[("streams[1].fields", "not a list")]),
    ("fields = \"all\"", "fields = {}", &[("streams[1].fields", "1 to 64")]),
    ("\"/temperature\"", "\"temperature\"", &[("streams[0].fields.temperature", "\"/temperature\"")]),
    ("\"/temperature\"", "\"$.sensors[0].t\"", &[("streams[0].fields.temperature", "\"/sensors/0/t\"")]),
    ("\"/temperature\"", "{ pointer = \"/temperature\", type = \"text\" }", &[("streams[0].fields.temperature.type", "\"number\" or \"state\"")]),
    ("\"/temperature\"", "{ type = \"state\" }", &[("streams[0].fields.temperature.pointer", "is missing")]),
    ("\"/a~1b/0\"", "\"/a~b\"", &[("streams[0].fields.humidity", "`~0`")]),
    ("time = { source = \"receive\" }\n", "", &[("streams[1].time", "no time is ever made up")]),
    ("time = { source = \"receive\" }", "time = \"receive\"", &[("streams[1].time", "{ source = \"receive\" }")]),
    ("time = { source = \"receive\" }", "time = []", &[("streams[1].time", "is an empty list")]),
    ("source = \"receive\"", "source = \"recieve\"", &[("streams[1].time.source", "did you mean \"receive\"?")]),
    ("{ source = \"receive\" }", "{ source = \"receive\", unit = \"ms\" }", &[("streams[1].time.unit", "has no effect")]),
    ("{ source = \"receive\" }", "{ field = \"/ts\" }", &[("streams[1].time", "a unit is never guessed")]),
    ("{ source = \"receive\" }", "{ field = \"/ts\", unit = \"sec\" }", &[("streams[1].time.unit", "\"s\" or \"ms\" or \"us\" or \"ns\"")]),
    ("{ source = \"receive\" }", "{ field = \"/ts\", unit = \"ms\", zone = \"UTC\", gap = \"reject\" }", &[("streams[1].time.zone", "has no effect with `unit`"), ("streams[1].time.gap", "has no effect with `unit`")]),
    ("{ source = \"receive\" }", "{ field = [\"/ts\", \"time\"], unit = \"ms\" }", &[("streams[1].time.field[1]", "\"/time\"")]),
    ("{ source = \"receive\" }", "{ field = [\"/ts\", \"/ts\"], unit = \"ms\" }", &[("streams[1].time.field[1]", "is there twice")]),
    ("{ source = \"receive\" }", "{ field = [], unit = \"ms\" }", &[("streams[1].time.field", "a list of them, not an empty one")]),
    ("{ source = \"receive\" }", "{ field = [\"/1\", \"/2\", \"/3\", \"/4\", \"/5\", \"/6\", \"/7\", \"/8\", \"/9\"], unit = \"ms\" }", &[("streams[1].time", "at most 8")]),
    ("{ source = \"receive\" }", "{ field = \"/ts\", format = \"ms\" }", &[("streams[1].time.format", "unit = \"ms\"")]),
    ("{ source = \"receive\" }", "{ field = \"/ts\", format = \"rfc3393\" }", &[("streams[1].time.format", "did you mean \"rfc3339\"?")]),
    ("{ source = \"receive\" }", "{ field = \"/ts\", format = \"iso\", overlap = \"later\" }", &[("streams[1].time.overlap", "has no effect without `zone`")]),
    ("{ source = \"receive\" }", "{ field = \"/ts\", format = \"rfc3339\", zone = \"UTC\" }", &[("streams[1].time.zone", "it has an offset")]),
    ("{ source = \"receive\" }", "{ field = \"/ts\", format = \"iso\", zone = \"Europe/Berln\" }", &[("streams[1].time.zone", "did you mean \"Europe/Berlin\"?")]),
    ("{ source = \"receive\" }", "{ field = \"/ts\", format = \"iso\", zone = \"UTC\", gap = \"skip\" }", &[("streams[1].time.gap", "\"reject\" or \"forward\"")]),
    ("{ source = \"receive\" }", "{ field = \"/ts\", format = \"%d.%m.%Y %H:%M\" }", &[("streams[1].time.zone", "the pattern has no offset")]),
    ("{ source = \"receive\" }", "{ field = \"/ts\", format = \"%d.%m.%Y %H:%M %z\", zone = \"UTC\" }", &[("streams[1].time.zone", "the pattern says the offset")]),
    ("{ source = \"receive\" }", "{ field = \"/ts\", format = \"%H:%M\", zone = \"UTC\" }", &[("streams[1].time.format", "names no day")]),
    ("{ source = \"receive\" }", "[{ field = \"/ts\", unit = \"ms\", missing = \"receive\" }, { field = \"/ts\", format = \"iso\" }, { source = \"receive\" }]", &[("streams[1].time[0].missing", "the last table"), ("streams[1].time[1].field", "is there twice"), ("streams[1].time[2].source", "cannot be one of several")]),
    ("{ source = \"receive\" }", "{ source = \"payload\", field = \"/ts\", unit = \"h\" }", &[("streams[1].time.field", "source = \"payload\""), ("streams[1].time.unit", "\"us\"")]),
    ("{ source = \"receive\" }", "{ unit = \"ms\" }", &[("streams[1].time.field", "is missing")]),
    ("format = \"rfc3339\"", "format = \"rfc3339\", unit = \"s\"", &[("streams[0].time.unit", "exclude each other")]),
    ("bad = \"receive\"", "bad = \"now\"", &[("streams[0].time.bad", "\"reject\" or \"receive\"")]),
    ("disorder = \"0s\"", "disorder = \"-1s\"", &[("streams[0].disorder", "must be a duration")]),
    ("disorder = \"0s\"", "disorder = \"400d\"", &[("streams[0].disorder", "366d")]),
    ("disorder = \"0s\"", "disorder = \"1.5s\"", &[("streams[0].disorder", "next smaller unit")]),
    ("disorder = \"0s\"", "disorder = \"1h30m\"", &[("streams[0].disorder", "hint: \"90m\"")]),
    ("disorder = \"0s\"", "disorder = \"1w\"", &[("streams[0].disorder", "hint: \"7d\"")]),
    ("offset = \"-5m\"", "offset = \"-1m30s\"", &[("streams[0].windows[0].offset", "hint: \"-90s\"")]),
    ("disorder = \"0s\"", "sise = \"0s\"", &[("streams[0].sise", "known: name, preset, topic")]),
    ("disorder = \"0s\"", "lateness = \"0s\"", &[("streams[0].lateness", "belongs to [[streams.windows]]")]),
    ("idle_timeout = \"off\"", "idle_timeout = \"0s\"", &[("streams[0].idle_timeout", "from 1ms")]),
    ("idle_timeout = \"off\"", "idle_timeout = false", &[("streams[0].idle_timeout", "or \"off\", not a bool")]),
    ("scope = \"shared\"", "scope = \"world\"", &[("streams[0].scope", "\"device\" or \"group\" or \"stream\" or \"shared\"")]),
    ("scope = \"shared\"", "scope = \"group\"", &[("streams[0].group", "scope = \"group\" needs a label")]),
    ("scope = \"shared\"", "scope = \"group\"\ngroup = \"{stie}\"", &[("streams[0].group", "it has: site, unit")]),
    ("scope = \"shared\"", "scope = \"group\"\ngroup = \"{site}\"\nmax_lag = \"1\"", &[("streams[0].max_lag", "must be a duration")]),
    ("scope = \"shared\"", "scope = \"stream\"\nall_idle = \"go\"", &[("streams[0].all_idle", "\"advance\" or \"stay\"")]),
    ("scope = \"shared\"", "max_lag = \"1m\"\nall_idle = \"stay\"", &[
        ("streams[0].max_lag", "says nothing without scope \"stream\" or \"group\""),
        ("streams[0].all_idle", "scope = \"stream\""),
    ]),
    // --- strategies
    ("disorder = \"0s\"", "watermark = \"bound\"", &[("streams[0].watermark", "did you mean \"bounded\"?")]),
    ("disorder = \"0s\"", "disorder = \"0s\"\nwatermark = \"monotonic\"", &[("streams[0].disorder", "says nothing with watermark = \"monotonic\"")]),
    ("disorder = \"0s\"", "quantile = 0.9\nmarker = \"x\"\ndelay = \"1s\"", &[
        ("streams[0].quantile", "remove it, or watermark = \"adaptive\""),
        ("streams[0].marker", "remove it, or watermark = \"punctuated\""),
        ("streams[0].delay", "remove it, or watermark = \"processing\""),
    ]),
    ("disorder = \"0s\"", "watermark = \"adaptive\"\nquantile = 0.5", &[("streams[0].quantile", "above 0.5")]),
    ("disorder = \"0s\"", "watermark = \"adaptive\"\nquantile = 1.01", &[("streams[0].quantile", "up to 1")]),
    ("disorder = \"0s\"", "watermark = \"adaptive\"\nquantile = 0.99999", &[("streams[0].quantile", "four decimals")]),
    ("disorder = \"0s\"", "watermark = \"adaptive\"\nquantile = \"0.9\"", &[("streams[0].quantile", "must be a number")]),
    ("disorder = \"0s\"", "watermark = \"adaptive\"\nfloor = \"2m\"", &[("streams[0].floor", "above `ceiling` (1m)")]),
    ("disorder = \"0s\"\nidle_timeout = \"off\"\nscope = \"shared\"\non_idle = \"hold\"\nmax_future = \"off\"\nmin_time = \"off\"\ndevices_max = 7", "watermark = \"adaptive\"\ndevices_max = 20001", &[("streams[0].devices_max", "at most 20000")]),
    ("disorder = \"0s\"", "watermark = \"punctuated\"", &[("streams[0].marker", "is missing")]),
    ("disorder = \"0s\"", "watermark = \"punctuated\"\nmarker = \"end\"", &[("streams[0].marker", "fields = { end = \"/end\"")]),
    ("disorder = \"0s\"\nidle_timeout = \"off\"\nscope = \"shared\"", "watermark = \"processing\"\nscope = \"stream\"", &[("streams[0].scope", "there is one clock")]),
    // --- keys
    ("size = \"15m\"", "size = \"15m\"\nkey = \"site\"", &[("streams[0].windows[0].key", "\"device\" or \"group\" or \"stream\"")]),
    ("size = \"15m\"", "size = \"15m\"\nkey = \"group\"", &[("streams[0].group", "key = \"group\" needs a label")]),
    ("scope = \"shared\"", "scope = \"shared\"\nresume = \"hold\"", &[("streams[0].resume", "scope = \"stream\"")]),
    ("scope = \"shared\"", "scope = \"stream\"\nresume = \"wait\"", &[("streams[0].resume", "\"catch_up\" or \"hold\"")]),
    ("size = \"15m\"", "gap = \"15m\"", &[("streams[0].windows[0].offset", "has no meaning for session windows")]),
    ("size = \"15m\"", "size = \"15m\"\nslide = \"1ms\"", &[
        ("streams[0].windows[0].slide", "900000 windows"),
        ("streams[0].windows[0].offset", "less than `slide`"),
    ]),
    ("on_idle = \"hold\"", "on_idle = \"emitt\"", &[("streams[0].on_idle", "did you mean \"emit\"?")]),
    ("on_idle = \"hold\"", "on_idle = \"close\"", &[("streams[0].on_idle", "that of others too")]),
    ("2020-01-01T00:00:00Z", "2020-01-01", &[("streams[1].min_time", "with an offset")]),
    ("devices_max = 7", "devices_max = 0", &[("streams[0].devices_max", "from 1 to 100000")]),
    ("devices_max = 7", "devices_max = \"7\"", &[("streams[0].devices_max", "must be an integer")]),
    // --- windows
    (
        "[[streams.windows]]\nname = \"10s\"\nsize = \"10s\"\n",
        "records = \"off\"\n",
        &[("streams[1].records", "go nowhere")],
    ),
    ("on_idle = \"hold\"", "records = \"sorted\"", &[("streams[0].records", "\"off\" or \"arrival\" or \"ordered\"")]),
    ("on_idle = \"hold\"", "state_ttl = \"1h\"", &[("streams[0].state_ttl", "\"1d\" or more")]),
    ("on_idle = \"hold\"", "state_ttl = \"0s\"", &[("streams[0].state_ttl", "from 1ms to 366d")]),
    ("on_idle = \"hold\"", "carry_forward = true", &[("streams[0].carry_forward", "such as")]),
    ("on_idle = \"hold\"", "carry_forward = \"0s\"", &[("streams[0].carry_forward", "from 1ms to 366d")]),
    ("on_idle = \"hold\"", "dedup = \"on\"", &[("streams[0].dedup", "a table, or \"off\"")]),
    ("on_idle = \"hold\"", "dedup = {}", &[("streams[0].dedup", "does not say what a copy is")]),
    ("on_idle = \"hold\"", "dedup = { sequence = \"/temperature\" }", &[("streams[0].dedup.sequence", "a field's name, not a pointer: \"temperature\"")]),
    ("fields = \"all\"", "dedup = { sequence = \"/head/n\" }", &[("streams[1].dedup.sequence", "not a pointer: \"head.n\"")]),
    ("humidity = \"/a~1b/0\" }", "n = { pointer = \"/n\", type = \"state\" } }\ndedup = { sequence = \"n\" }", &[("streams[0].dedup.sequence", "must be a number; this field is a state")]),
    ("on_idle = \"hold\"", "dedup = { sequence = \"seq\" }", &[("streams[0].dedup.sequence", "is none of `fields`")]),
    (
        "on_idle = \"hold\"",
        "dedup = { by = \"payload\", horizon = 2000 }",
        &[("streams[0].dedup.by", "\"time_and_values\""), ("streams[0].dedup.horizon", "from 1 to 1024")],
    ),
    (
        "devices_max = 7",
        "dedup = { by = \"time_and_values\", horizon = 300 }\ndevices_max = 1000",
        &[("streams[0].dedup", "horizon = 261 is the largest that fits")],
    ),
    (
        "devices_max = 7",
        "dedup = { sequence = \"temperature\", horizon = 512 }\ndevices_max = 50000",
        &[("streams[0].dedup", "devices_max = 32768 at most, and a smaller `horizon`")],
    ),
    ("on_idle = \"hold\"", "ordered_max = 10", &[("streams[0].ordered_max", "says nothing")]),
    (
        "on_idle = \"hold\"",
        "records = \"ordered\"\nordered_max = 0",
        &[("streams[0].ordered_max", "from 1 to 100000")],
    ),
    ("size = \"15m\"", "size = \"0s\"", &[("streams[0].windows[0].size", "from 1ms to 366d")]),
    ("size = \"15m\"", "size = 15", &[("streams[0].windows[0].size", "a number alone has no unit")]),
    ("size = \"15m\"\n", "", &[("streams[0].windows[0].size", "is missing")]),
    ("offset = \"-5m\"", "offset = \"-15m\"", &[("streams[0].windows[0].offset", "\"0s\" has the same borders")]),
    ("offset = \"6h\"", "offset = \"30h\"", &[("streams[0].windows[1].offset", "\"6h\" has the same borders")]),
    ("name = \"day\"", "name = \"15m\"", &[("streams[0].windows[1].name", "streams[0].windows[0] has the same name")]),
    ("late = \"drop\"", "late = \"backfil\"", &[("streams[0].windows[0].late", "did you mean \"backfill\"?")]),
    ("late = \"drop\"", "late = \"drop\"\nbackfill_quiet = \"1s\"", &[("streams[0].windows[0].backfill_quiet", "says nothing without late = \"backfill\"")]),
    ("late = \"drop\"", "late = \"backfill\"\nbackfill_max_age = \"0s\"", &[("streams[0].windows[0].backfill_max_age", "from 1ms")]),
    ("late = \"drop\"\naggregates = [\"max\", \"count\"]", "late = \"backfill\"\naggregates = [\"max\", \"rate\"]", &[("streams[0].windows[0].late", "does not go with rate")]),
    ("size = \"15m\"\noffset = \"-5m\"\nlateness = \"10m\"\nlate = \"drop\"", "gap = \"5m\"\nlate = \"backfill\"", &[("streams[0].windows[0].late", "does not go with session windows")]),
    ("size = \"15m\"\noffset = \"-5m\"", "gap = \"5m\"\nmax_length = \"4m\"", &[("streams[0].windows[0].max_length", "must not be below `gap` (5m)")]),
    ("size = \"15m\"", "size = \"15m\"\nzone = \"UTC\"\nmax_length = \"1h\"", &[("streams[0].windows[0].zone", "calendar = \"day\" instead of `size`"), ("streams[0].windows[0].max_length", "it goes with `gap`")]),
    ("size = \"15m\"", "size = \"15m\"\ncalendar = \"year\"\nzone = \"Europe/Berln\"", &[
        ("streams[0].windows[0].size", "has no meaning for windows of the calendar"),
        ("streams[0].windows[0].calendar", "\"hour\" or \"day\" or \"week\" or \"month\""),
        ("streams[0].windows[0].zone", "did you mean \"Europe/Berlin\"?"),
        ("streams[0].windows[0].offset", "not negative"),
    ]),
    ("size = \"1d\"\noffset = \"6h\"", "gap = \"1d\"\nzone = \"UTC\"", &[("streams[0].windows[1].zone", "calendar = \"day\" instead of `gap`")]),
    ("size = \"1d\"\noffset = \"6h\"", "calendar = \"hour\"\noffset = \"6h\"", &[("streams[0].windows[1].offset", "must be less than one hour (1h)")]),
    ("late = \"drop\"", "late_updates = { every = \"0s\" }", &[("streams[0].windows[0].late_updates.every", "from 1ms")]),
    ("late = \"drop\"", "late_updates = \"all\"", &[("streams[0].windows[0].late_updates", "\"each\" or a table")]),
    ("size = \"1d\"", "size = \"1d\"\nlate_updates = { every = \"5s\" }", &[("streams[0].windows[1].late_updates", "says nothing without `lateness`")]),
    ("late = \"drop\"", "early = \"0s\"\nfinal = \"yes\"", &[("streams[0].windows[0].early", "from 1ms"), ("streams[0].windows[0].final", "true or false")]),
    ("[\"max\", \"count\"]", "[]", &[("streams[0].windows[0].aggregates", "is empty")]),
    ("[\"max\", \"count\"]", "\"max\"", &[("streams[0].windows[0].aggregates", "must be a list")]),
    ("[\"max\", \"count\"]", "[\"max\", \"avg\", \"xyz\", \"max\", 1]", &[
        ("streams[0].windows[0].aggregates[1]", "did you mean \"mean\"?"),
        ("streams[0].windows[0].aggregates[2]", "known: count, sum"),
        ("streams[0].windows[0].aggregates[3]", "appears twice"),
        ("streams[0].windows[0].aggregates[4]", "must be a string"),
    ]),
    ("[\"max\", \"count\"]", "[\"p95\", \"delta\"]", &[
        ("streams[0].windows[0].aggregates[0]", "did you mean \"quantiles\"?"),
        ("streams[0].windows[0].aggregates[1]", "did you mean \"increase\"?"),
    ]),
    ("[\"max\", \"count\"]", "[\"histogram\"]", &[("streams[0].windows[0].histogram", "histogram = [10, 20, 30]")]),
    ("[\"max\", \"count\"]", "[\"histogram\"]\nhistogram = [10, 10]", &[("streams[0].windows[0].histogram", "does not rise")]),
    ("[\"max\", \"count\"]", "[\"histogram\"]\nhistogram = [1, \"2\"]", &[("streams[0].windows[0].histogram[1]", "must be a number")]),
    ("[\"max\", \"count\"]", "[\"histogram\"]\nhistogram = []", &[("streams[0].windows[0].histogram", "1 to 32")]),
    ("[\"max\", \"count\"]", "[\"quantiles\"]\nquantiles = [95]", &[("streams[0].windows[0].quantiles", "0.95")]),
    ("[\"max\", \"count\"]", "[\"quantiles\"]\nquantiles = [0.5, 0.5]", &[("streams[0].windows[0].quantiles", "twice")]),
    ("[\"max\", \"count\"]", "[\"max\"]\nquantiles = [0.5]", &[("streams[0].windows[0].quantiles", "without the aggregate")]),
];

#[test]
fn every_wrong_value_is_named_with_path_place_and_hint() {
    for (from, to, expected) in WRONG {
        assert!(FULL.contains(from), "{from} stands in the full file");
        let text = FULL.replacen(from, to, 1);
        let problems = refused(&text).problems;
        let paths: Vec<&str> = problems.iter().map(|problem| problem.path.as_str()).collect();
        assert_eq!(paths, expected.iter().map(|(path, _)| *path).collect::<Vec<_>>(), "{to}: {problems:#?}");
        for (problem, (_, part)) in problems.iter().zip(*expected) {
            assert!(problem.to_string().contains(part), "{to}: {problem}");
            let line = problem.line.unwrap_or_else(|| panic!("{to}: no line: {problem}"));
            assert!(line <= text.lines().count() && problem.column.is_some(), "{to}: {problem}");
        }
    }
    let long = "secret".repeat(20);
    for address in
        ["mqtt://u:secret@10.0.0.5", "u:secret@10.0.0.5", "tcp://secret@10.0.0.5", &format!("mqtt://u:{long}@10.0.0.5")]
    {
        let problems = refused(&FULL.replace("mqtt://10.0.0.5", address)).to_string();
        assert!(
            problems.contains("devices.broker = \"***@10.0.0.5:1884\"") && !problems.contains("secret"),
            "{problems}"
        );
    }
    // Messages are sentences in one style; look at them all.
    for (from, to, _) in WRONG {
        println!("{}", refused(&FULL.replacen(from, to, 1)));
    }
}

#[test]
fn all_problems_are_reported_at_once() {
    let mut text = FULL.to_owned();
    let mut expected = Vec::new();
    for (from, to, problems) in WRONG {
        // As many changes as fit next to each other, one per key.
        // (These are judged against another key, which is wrong here.)
        let free = !["snapshot", "topic", "offset"].iter().any(|key| from.starts_with(key))
            && text.contains(from)
            && FULL.matches(from).count() == 1
            && !to.contains('\n')
            && !to.contains(from)
            && !from.starts_with("[c");
        if free && problems.len() == 1 && !expected.iter().any(|(path, _)| path == &problems[0].0) {
            text = text.replacen(from, to, 1);
            expected.push(problems[0]);
        }
    }
    assert!(expected.len() >= 25, "{}", expected.len());
    let found: Vec<String> = refused(&text).problems.into_iter().map(|problem| problem.path).collect();
    for (path, _) in &expected {
        assert!(found.iter().any(|known| known == path), "{path} is missing in {found:#?}");
    }
}
