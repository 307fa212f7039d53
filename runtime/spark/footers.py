"""What Parquet files that Spark reads row by row have to have: every column, and every group of rows within the file.

Spark gives NULLs for a column that is not there, and passes over a group that seems to lie behind the file's end. Who
meets a file's first row looks at its footer: under a local master Java itself, elsewhere a worker, for which every row
goes through Python. Of a file that cannot be opened, as on a file system that Arrow does not know, nothing is said.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs
from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import BooleanType

from aggloom.errors import InputFormatError, nearest
from aggloom.runtime.spark.arrow_udf import arrow_udf
from aggloom.runtime.spark.file_names import check_name, well_named
from aggloom.runtime.spark.java_class import function_of
from aggloom.runtime.spark.session import is_local

_FILE: Final = "_metadata.file_path"
_DAMAGED: Final = (
    ": cannot be read as Parquet: its footer is damaged, and Spark would pass over rows. "
    "Take the file away, or write it anew."
)
_LENIENT: Final = 'missing="null" takes what is missing for NULL.'
_CLASS: Final = "AggloomFooters"
_SOURCE: Final = f"""
import java.util.HashSet;
import java.util.List;
import java.util.Set;
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
import org.apache.spark.sql.api.java.UDF2;
import org.apache.spark.sql.expressions.UserDefinedFunction;
import org.apache.spark.sql.functions;
import org.apache.spark.sql.types.DataTypes;

public class {_CLASS} implements UDF2 {{
    public static UserDefinedFunction function() {{
        return functions.udf(new {_CLASS}(), DataTypes.StringType).asNondeterministic();
    }}

    public Object call(Object uri, Object names) throws Exception {{
        return wrong((String) uri, (String) names);
    }}

    private static String wrong(String uri, String names) throws Exception {{
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
        return hasItsGroups(footer, size) ? lacking(footer, path, names) : {json.dumps(_DAMAGED)};
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

    private static String lacking(FileMetaData footer, Path path, String names) {{
        Set there = new HashSet();
        StringBuilder known = new StringBuilder();
        List elements = footer.getSchema();
        int next = 1;
        while (next < elements.size()) {{
            String name = ((SchemaElement) elements.get(next)).getName();
            there.add(name.toLowerCase(java.util.Locale.ROOT));
            known.append(known.length() == 0 ? "'" : ", '").append(name).append("'");
            next = after(elements, next);
        }}
        for (Path part = path.getParent(); part != null; part = part.getParent()) {{
            int equals = part.getName().indexOf('=');
            if (equals >= 0) {{
                there.add(part.getName().substring(0, equals).toLowerCase(java.util.Locale.ROOT));
            }}
        }}
        String[] wanted = names.isEmpty() ? new String[0] : names.split("\\n");
        for (int i = 0; i < wanted.length; i++) {{
            if (!there.contains(wanted[i].toLowerCase(java.util.Locale.ROOT))) {{
                return ": the file lacks column '" + wanted[i] + "'. Known: " + known + ". " + {json.dumps(_LENIENT)};
            }}
        }}
        return null;
    }}

    private static int after(List elements, int place) {{
        int children = ((SchemaElement) elements.get(place)).getNum_children();
        int next = place + 1;
        for (int i = 0; i < children; i++) {{
            next = after(elements, next);
        }}
        return next;
    }}
}}
"""


@dataclass(frozen=True)
class Footers:
    """The function of files' paths, NULL where there is nothing to look at, that raises InputFormatError."""

    names: tuple[str, ...]

    def __call__(self, paths: pa.Array) -> pa.Array:
        """Look at each file; nothing comes of it but NULLs."""
        for path in paths.drop_null().unique().to_pylist():
            self._look_at(path)
        return pa.nulls(len(paths), pa.bool_())

    def _look_at(self, path: str) -> None:
        check_name(unquote(path))
        found = _columns(path)
        if found is None:
            return
        below = [part.partition("=")[0] for part in path.split("/")[:-1] if "=" in part]
        lower = {name.lower() for name in (*found, *map(unquote, below))}
        lacks = [name for name in self.names if name.lower() not in lower]
        if lacks:
            raise InputFormatError(
                f"{path}: the file lacks column {lacks[0]!r}. {nearest(lacks[0], found)} {_LENIENT}"
            )


def _columns(path: str) -> list[str] | None:
    """The columns of a file; None if it cannot be opened here."""
    try:
        system, place = fs.FileSystem.from_uri(path)
        with system.open_input_file(place) as file:
            opened = pq.ParquetFile(file)
            size = file.size()
    except (pa.ArrowException, OSError, ValueError):
        return None
    _check_groups(path, opened.metadata, size)
    return list(opened.schema_arrow.names)


def _check_groups(path: str, metadata: pq.FileMetaData, size: int) -> None:
    """Raise InputFormatError unless the groups of rows have the file's rows, and begin within it."""
    try:
        groups = [metadata.row_group(place) for place in range(metadata.num_row_groups)]
        rows = sum(group.num_rows for group in groups)
        firsts = [group.column(0) for group in groups if group.num_columns]
        ends = [_begin(each) + each.total_compressed_size for each in firsts]
        sound = rows == metadata.num_rows and all(0 < end <= size for end in ends)
    except (pa.ArrowException, OSError):
        sound = False
    if not sound:
        raise InputFormatError(f"{path}{_DAMAGED}")


def _begin(column: pq.ColumnChunkMetaData) -> int:
    """Where a column's pages begin: with its dictionary, if it has one."""
    own = column.dictionary_page_offset if column.has_dictionary_page else None
    return int(column.data_page_offset if own is None else min(own, column.data_page_offset))


def lacks_column(spark: Any, names: list[str]) -> Column:
    """A column that is NULL, and fails the query at a file that lacks one of the columns.

    It is not determined by the row, so that Spark does not move it behind a filter, which may leave out the row that it
    looks at.
    """
    first, path = F.col("_metadata.row_index") == 0, F.col(_FILE)
    wrong = function_of(spark, _CLASS, _SOURCE) if is_local(spark) else None
    if wrong is not None:
        found = wrong(well_named(path, path), F.lit("\n".join(names)))
        told = F.raise_error(F.concat(F.lit("InputFormatError: "), path, found))
        return F.when(first, F.when(found.isNotNull(), told))
    look = Footers(tuple(names))

    def looked(paths: pa.Array) -> pa.Array:
        return look(paths)

    return arrow_udf(looked, BooleanType())(F.when(first, path))
