"""The statements of a database sink: its table, the rows by key, and the log of batches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from aggloom.runtime.connectors.database.dialects import DatabaseDialect
from aggloom.type_layout import is_variant

Key = tuple[str, ...]


@dataclass(frozen=True)
class Statements:
    """Statements to a database about one table."""

    dialect: DatabaseDialect
    mark: str
    table: str
    schema: pa.Schema
    key: Key
    log: str

    @property
    def create(self) -> str:
        """Makes the table, unless it is there."""
        columns = [f"{self._quote(name)} {self._type_of(name)}" for name in self.schema.names]
        # A key may be NULL, which a primary key may not; rows with such a key are deleted before they are written.
        unique = [f"UNIQUE ({self._names(self.key)})"] if self.key else []
        parts = ", ".join([*columns, *unique])
        return f"CREATE TABLE IF NOT EXISTS {self.quote_table(self.table)} ({parts}){self.dialect.table_end}"

    @property
    def create_log(self) -> str:
        """Makes the log of batches, unless it is there."""
        return (
            f"CREATE TABLE IF NOT EXISTS {self.quote_table(self.log)} (checkpoint VARCHAR(100) NOT NULL, "
            "sink VARCHAR(200) NOT NULL, batch BIGINT NOT NULL, digest VARCHAR(100) NOT NULL, "
            f"PRIMARY KEY (checkpoint, sink)){self.dialect.table_end}"
        )

    @property
    def upsert(self) -> str:
        """Writes a row over the one of its key."""
        return f"{self.insert}{self._over}"

    @property
    def _over(self) -> str:
        """Return the clause for a row whose key there is already."""
        if not self.key:
            return ""
        rest = [self._quote_column(name) for name in self.schema.names if name not in self.key]
        own = [self._quote_column(name) for name in self.key]
        new_value = self.dialect.new_value.format
        setting = ", ".join(f"{name} = {new_value(name)}" for name in rest)
        then = f"UPDATE SET {setting}" if rest else "NOTHING"
        nothing = f"{own[0]} = {own[0]}"
        return self.dialect.over.format(key=", ".join(own), then=then, setting=setting or nothing)

    @property
    def insert(self) -> str:
        """Writes a row of whose key there is none."""
        return self._insert_rows(1)

    def _insert_rows(self, count: int) -> str:
        marks = ", ".join(self.dialect.holder(field.type, self.mark) for field in self.schema)
        names = ", ".join(map(self._quote_column, self.schema.names))
        rows = ", ".join([f"({marks})"] * count)
        return f"INSERT INTO {self._table} ({names}) VALUES {rows}"

    def upsert_rows(self, count: int) -> str:
        """Writes so many rows over those of their keys; a row whose key has NULL has to be deleted before."""
        return f"{self._insert_rows(count)}{self._over}"

    def delete_rows(self, count: int, nulls: bool) -> str:
        """Deletes the rows of so many keys. nulls: whether a value of them may be NULL."""
        if nulls:
            condition = " OR ".join([f"({self._key_condition(nulls)})"] * count)
        else:
            names = ", ".join(map(self._quote_column, self.key))
            marks = ", ".join([self.mark] * len(self.key))
            condition = f"({names}) IN ({', '.join([f'({marks})'] * count)})"
        return f"DELETE FROM {self._table} WHERE {condition}"

    def delete(self, nulls: bool) -> str:
        """Deletes the row of a key. nulls: whether a value of it may be NULL."""
        condition = self._key_condition(nulls)
        return f"DELETE FROM {self._table}" + (f" WHERE {condition}" if condition else "")

    def _key_condition(self, nulls: bool) -> str:
        """Return the condition for a row of a key."""
        equal = self.dialect.nulls_equal if nulls else "="
        types = [self.schema.field(name).type for name in self.key]
        marks = [self.dialect.holder(each, self.mark) + self.dialect.compare for each in types]
        conditions = [
            f"{self._quote_column(n)} {equal} {m}" for n, m in zip(self.key, marks, strict=True)
        ]
        return " AND ".join(conditions)

    @property
    def upsert_many(self) -> str:
        """Writes rows, whose columns are texts of arrays, over those of their keys, in their order."""
        names = ", ".join(map(self._quote_column, self.schema.names))
        values = ", ".join(self._of_block(place, f.type) for place, f in enumerate(self.schema))
        block = self._block(self.schema.types)
        return f"INSERT INTO {self._table} ({names}) SELECT {values} FROM {block}{self._over}"

    def delete_many(self, nulls: Sequence[bool]) -> str:
        """Deletes the rows of keys, whose columns are texts of arrays. nulls: which of them are all NULL."""
        types = [self.schema.field(name).type for name in self.key]
        return (
            f"DELETE FROM {self._table} AS old USING {self._block(types)} WHERE {self._same(nulls)}"
        )

    def lock_many(self, nulls: Sequence[bool]) -> str:
        """Locks the rows of keys, in their order."""
        types = [self.schema.field(name).type for name in self.key]
        rows = (
            f"SELECT 1 FROM {self._table} AS old, {self._block(types, ordered=True)} WHERE {self._same(nulls)} "
            "ORDER BY new.place FOR UPDATE OF old"
        )
        return f"SELECT COUNT(*) FROM ({rows}) AS locked"

    def _block(self, types: Sequence[pa.DataType], ordered: bool = False) -> str:
        """Rows out of parameters that are texts of arrays, by the name of `new`."""
        arrays = ", ".join(f"CAST({self.mark} AS {self._in_array(each)}[])" for each in types)
        names = [f"c{place}" for place in range(len(types))]
        if ordered:
            return f"UNNEST({arrays}) WITH ORDINALITY AS new ({', '.join([*names, 'place'])})"
        return f"UNNEST({arrays}) AS new ({', '.join(names)})"

    def _in_array(self, dtype: pa.DataType) -> str:
        """The type of a column's values in an array; an array of arrays would be taken apart whole."""
        return "TEXT" if pa.types.is_list(dtype) else self.dialect.type_of(dtype)

    def _of_block(self, place: int, dtype: pa.DataType) -> str:
        """A value of a block's row."""
        own = f"new.c{place}"
        return f"CAST({own} AS {self.dialect.type_of(dtype)})" if pa.types.is_list(dtype) else own

    def _same(self, nulls: Sequence[bool]) -> str:
        """Return the condition that an old row and one of a block have one key."""
        conditions = []
        for place, (name, null) in enumerate(zip(self.key, nulls, strict=True)):
            value = self._of_block(place, self.schema.field(name).type)
            conditions.append(
                f"old.{self._quote_column(name)} " + ("IS NULL" if null else f"= {value}")
            )
        return " AND ".join(conditions)

    @property
    def delete_all(self) -> str:
        """Deletes every row."""
        return f"DELETE FROM {self.quote_table(self.table)}"

    @property
    def any_row(self) -> str:
        """Asks for one row, whose columns tell those of the table."""
        return f"SELECT * FROM {self.quote_table(self.table)} LIMIT 1"

    @property
    def all_rows(self) -> str:
        """Asks for the result's columns of every row."""
        columns = [self._read_column(field) for field in self.schema]
        return f"SELECT {', '.join(columns)} FROM {self.quote_table(self.table)}"

    def _read_column(self, field: pa.Field) -> str:
        """The value of a column such that its driver gives it whole."""
        name = self._quote(field.name)
        if field.type == pa.float32():
            return self.dialect.number_of.format(name)
        # A driver that reads documents itself would give a text that is one as it gives any text.
        reads_documents = is_variant(field.type) and self.dialect.writes_dates
        return f"CAST({name} AS TEXT)" if reads_documents else name

    @property
    def column_types(self) -> tuple[str, tuple[str | None, ...]]:
        """Asks for the names and types of the table's columns; the statement with its parameters."""
        schema, _, table = self.table.rpartition(".")
        apart = self.dialect.schema_apart
        named = (table, schema or None, table) if apart else (self.quote_table(self.table),)
        return self.dialect.column_types.format(mark=self.mark), named

    @property
    def last_batch(self) -> str:
        """Asks which batch of a checkpoint was written last."""
        return f"SELECT batch, digest FROM {self._log} WHERE checkpoint = {self.mark} AND sink = {self.mark}"

    @property
    def first_batch(self) -> str:
        """Notes the first batch that a checkpoint writes; it fails if another run of it does so, too."""
        marks = ", ".join([self.mark] * 4)
        return f"INSERT INTO {self._log} (batch, digest, checkpoint, sink) VALUES ({marks})"

    @property
    def next_batch(self) -> str:
        """Notes the next batch, if the last one is still what it was; another run waits until this one is over."""
        key_names = ("checkpoint", "sink", "batch", "digest")
        where = " AND ".join(f"{name} = {self.mark}" for name in key_names)
        return f"UPDATE {self._log} SET batch = {self.mark}, digest = {self.mark} WHERE {where}"

    @property
    def forget_others(self) -> str:
        """Forgets what other checkpoints have written into the table."""
        return f"DELETE FROM {self._log} WHERE sink = {self.mark} AND checkpoint <> {self.mark}"

    def add_column(self, name: str) -> str:
        """Return the statement that would give the table a column that it lacks."""
        table, column = self.quote_table(self.table), self._quote(name)
        return f"ALTER TABLE {table} ADD COLUMN {column} {self._type_of(name)}"

    def alter_type(self, name: str) -> str:
        """Return the statement that would give a column of the table a type that holds the result's values."""
        table, column = self.quote_table(self.table), self._quote(name)
        return self.dialect.alter.format(table=table, column=column, kind=self._type_of(name))

    def _type_of(self, name: str) -> str:
        """Return the type of a column that is made."""
        if name in self.key:
            own = pa.schema([self.schema.field(each) for each in self.key])
            return self.dialect.key_types_of(own)[name]
        return self.dialect.type_of(self.schema.field(name).type)

    def _quote(self, name: str) -> str:
        """A name as an identifier."""
        quote = self.dialect.quote
        return quote + name.replace(quote, 2 * quote) + quote

    def quote_table(self, name: str) -> str:
        """The name of a table, perhaps with that of its schema before a point."""
        return ".".join(self._quote(part) for part in name.split("."))

    @property
    def _table(self) -> str:
        return self._escape_name(self.quote_table(self.table))

    @property
    def _log(self) -> str:
        return self._escape_name(self.quote_table(self.log))

    def _quote_column(self, name: str) -> str:
        return self._escape_name(self._quote(name))

    def _escape_name(self, text: str) -> str:
        """A name in a statement with parameters, in which a percent sign may begin one."""
        return text.replace("%", "%%") if self.mark.startswith("%") else text

    def _names(self, names: Sequence[str]) -> str:
        return ", ".join(map(self._quote, names))
