import type { DatabaseSync } from 'node:sqlite'

/** Each entry lifts the schema by one version (`PRAGMA user_version`). Append; never edit one that was released. */
const migrations: readonly string[] = [
  `
  CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT;
  CREATE TABLE vms (
    id TEXT PRIMARY KEY,
    user_id INTEGER NOT NULL UNIQUE,
    device TEXT NOT NULL UNIQUE,
    ipv4_address TEXT UNIQUE,
    ipv6_address TEXT UNIQUE,
    desired TEXT NOT NULL,
    -- Of desired, for the capacity ledger.
    cpu_millicores INTEGER NOT NULL,
    memory_mib INTEGER NOT NULL,
    disk_mib INTEGER NOT NULL,
    labels TEXT NOT NULL,
    protected INTEGER NOT NULL,
    deleting INTEGER NOT NULL DEFAULT 0,
    desired_generation INTEGER NOT NULL,
    power_generation INTEGER NOT NULL CHECK (power_generation <= desired_generation),
    observed_generation INTEGER NOT NULL CHECK (observed_generation <= desired_generation),
    operation_id TEXT NOT NULL,
    state TEXT NOT NULL,
    observed TEXT NOT NULL,
    launch TEXT,
    exit_streak INTEGER NOT NULL DEFAULT 0,
    revision INTEGER NOT NULL,
    created_at_ms INTEGER NOT NULL,
    updated_at_ms INTEGER NOT NULL
  ) STRICT;
  CREATE INDEX vms_by_state ON vms (state, id);
  CREATE TABLE vm_inputs (
    vm_id TEXT PRIMARY KEY REFERENCES vms (id) ON DELETE CASCADE,
    request TEXT NOT NULL,
    sources TEXT NOT NULL,
    user_data TEXT,
    ssh_authorized_keys TEXT NOT NULL
  ) STRICT;
  `,
  `
  CREATE TABLE ssh_host_keys (
    vm_id TEXT PRIMARY KEY REFERENCES vms (id) ON DELETE CASCADE,
    fingerprint TEXT NOT NULL,
    pinned_at_ms INTEGER NOT NULL
  ) STRICT;
  `,
  `
  ALTER TABLE vms ADD COLUMN wake TEXT;
  ALTER TABLE vms ADD COLUMN may_be_saved INTEGER NOT NULL DEFAULT 0;
  `,
]

/** Brings the schema up to date in one transaction; refuses a store written by a newer version. */
export function migrate(db: DatabaseSync): void {
  const { user_version: version } = db.prepare('PRAGMA user_version').get() as { user_version: number }
  if (version > migrations.length) {
    throw new Error(
      `the store has schema version ${version}, this build knows up to ${migrations.length}: install the newer vmhostd again`,
    )
  }
  if (version === migrations.length) return
  db.exec('BEGIN IMMEDIATE')
  try {
    for (const sql of migrations.slice(version)) db.exec(sql)
    db.exec(`PRAGMA user_version = ${migrations.length}`)
    db.exec('COMMIT')
  } catch (error) {
    db.exec('ROLLBACK')
    throw error
  }
}
