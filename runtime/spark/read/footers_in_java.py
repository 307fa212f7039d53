"""The class by which Java looks at the footer of each Parquet file whose rows it reads, ahead of its first row."""

from __future__ import annotations

import json
from typing import Final

from aggloom.runtime.spark.read.file_names import CAUSE, IN_URIS
from aggloom.runtime.values.markers import MARKER_HINT

DAMAGED: Final = (
    "cannot be read as Parquet: its footer is damaged, and Spark would pass over rows. "
    "Take the file away, or write it anew."
)
LENIENT: Final = 'missing="null" takes what is missing for NULL.'
CLASS: Final = "AggloomFooters"
# The function is called for each row, which must cost next to nothing: it takes no arguments, and knows by the address
# of the path's object whether a row is of the file of the row before. Spark makes a new one for each part of a file.
SOURCE: Final = f"""
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.parquet.format.ColumnMetaData;
import org.apache.parquet.format.ColumnChunk;
import org.apache.parquet.format.FileMetaData;
import org.apache.parquet.format.RowGroup;
import org.apache.parquet.format.SchemaElement;
import org.apache.parquet.format.Util;
import org.apache.spark.deploy.SparkHadoopUtil;
import org.apache.spark.rdd.InputFileBlockHolder;
import org.apache.spark.sql.api.java.UDF0;
import org.apache.spark.sql.expressions.UserDefinedFunction;
import org.apache.spark.sql.functions;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.unsafe.types.UTF8String;

public class {CLASS} implements UDF0 {{
    private final String[] wanted;
    private final String[] changes;
    private final String[] flattened;
    private transient UTF8String last;
    private transient String wrong;

    public {CLASS}(String wanted, String changes, String flattened) {{
        this.wanted = names(wanted);
        this.changes = names(changes);
        this.flattened = names(flattened);
    }}

    public static UserDefinedFunction function(String wanted, String changes, String flattened) {{
        UDF0 made = new {CLASS}(wanted, changes, flattened);
        return functions.udf(made, DataTypes.StringType).asNondeterministic();
    }}

    private static String[] names(String lines) {{
        return lines.isEmpty() ? new String[0] : lines.split("\\n");
    }}

    public Object call() throws Exception {{
        UTF8String file = InputFileBlockHolder.getInputFilePath();
        if (file != last) {{
            wrong = wrong(file.toString());
            last = file;
        }}
        return wrong;
    }}

    private String wrong(String uri) throws Exception {{
        if (java.util.regex.Pattern.compile({json.dumps(IN_URIS)}).matcher(uri).find()) {{
            return {json.dumps(CAUSE)};
        }}
        if (uri.isEmpty()) {{
            return "Spark does not say which file a row is of, so that its footer cannot be looked at.";
        }}
        Path path = new Path(new java.net.URI(uri));
        FileMetaData footer;
        long size;
        try {{
            FileSystem files = path.getFileSystem(SparkHadoopUtil.get().conf());
            size = files.getFileStatus(path).getLen();
            FSDataInputStream in = files.open(path);
            try {{
                byte[] tail = new byte[8];
                in.readFully(size - 8, tail);
                int length = Integer.reverseBytes(java.nio.ByteBuffer.wrap(tail).getInt());
                if (length <= 0 || tail[4] != 'P' || tail[5] != 'A' || tail[6] != 'R' || tail[7] != '1') {{
                    return null;
                }}
                in.seek(size - 8 - length);
                footer = Util.readFileMetaData(in);
            }} finally {{
                in.close();
            }}
        }} catch (Exception e) {{
            return null;
        }}
        return hasItsGroups(footer, size) ? told(columns(footer), path) : {json.dumps(DAMAGED)};
    }}

    private static boolean hasItsGroups(FileMetaData footer, long size) {{
        long rows = 0;
        List groups = footer.getRow_groups();
        for (int i = 0; i < groups.size(); i++) {{
            RowGroup group = (RowGroup) groups.get(i);
            rows += group.getNum_rows();
            if (group.getColumns().isEmpty()) {{
                continue;
            }}
            ColumnMetaData first = ((ColumnChunk) group.getColumns().get(0)).getMeta_data();
            long begin = first.getData_page_offset();
            if (first.isSetDictionary_page_offset()) {{
                begin = Math.min(begin, first.getDictionary_page_offset());
            }}
            long end = begin + first.getTotal_compressed_size();
            if (end <= 0 || end > size) {{
                return false;
            }}
        }}
        return rows == footer.getNum_rows();
    }}

    /** The columns of a file by their names in lower case. */
    private static Map columns(FileMetaData footer) {{
        Map there = new LinkedHashMap();
        List elements = footer.getSchema();
        int next = 1;
        while (next < elements.size()) {{
            String name = ((SchemaElement) elements.get(next)).getName();
            there.put(name.toLowerCase(Locale.ROOT), name);
            next = after(elements, next);
        }}
        return there;
    }}

    private static int after(List elements, int place) {{
        int children = ((SchemaElement) elements.get(place)).getNum_children();
        int next = place + 1;
        for (int i = 0; i < children; i++) {{
            next = after(elements, next);
        }}
        return next;
    }}

    private String told(Map there, Path path) {{
        for (int i = 0; i < flattened.length; i++) {{
            if (there.containsKey(flattened[i])) {{
                return "column '" + flattened[i] + "' " + {json.dumps(MARKER_HINT)};
            }}
        }}
        if (changes.length == 2 && there.containsKey(changes[0]) && there.containsKey(changes[1])) {{
            return "both '" + changes[0] + "' and '" + changes[1] + "' are there; keep one";
        }}
        String known = String.join("', '", there.values());
        for (Path part = path.getParent(); part != null; part = part.getParent()) {{
            int equals = part.getName().indexOf('=');
            if (equals >= 0) {{
                String name = part.getName().substring(0, equals);
                there.put(name.toLowerCase(Locale.ROOT), name);
            }}
        }}
        for (int i = 0; i < wanted.length; i++) {{
            if (!there.containsKey(wanted[i].toLowerCase(Locale.ROOT))) {{
                return "the file lacks column '" + wanted[i] + "'. Known: '" + known + "'. " + {json.dumps(LENIENT)};
            }}
        }}
        return null;
    }}
}}
"""
