import { hasColumn } from './columns.ts'
import type { DatabaseSync } from 'node:sqlite'

/** Each entry raises the schema by one version (`PRAGMA user_version`). Append entries; never edit a released one. */
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
  `
  CREATE TABLE snapshots (
    id TEXT PRIMARY KEY,
    -- No reference: a snapshot outlives its VM.
    vm_id TEXT NOT NULL,
    vm_created_at_ms INTEGER NOT NULL,
    staging_id TEXT NOT NULL UNIQUE,
    operation_id TEXT NOT NULL,
    stage TEXT NOT NULL,
    part_mib INTEGER NOT NULL,
    capture TEXT,
    packed_image_bytes INTEGER NOT NULL DEFAULT 0,
    packed_stored_bytes INTEGER NOT NULL DEFAULT 0,
    -- Counters of its parts.
    packed_parts INTEGER NOT NULL DEFAULT 0,
    parts_bytes INTEGER NOT NULL DEFAULT 0,
    sent_parts INTEGER NOT NULL DEFAULT 0,
    sent_image_bytes INTEGER NOT NULL DEFAULT 0,
    sha256 TEXT,
    completion_sent INTEGER NOT NULL DEFAULT 0,
    trouble TEXT,
    resumable INTEGER NOT NULL DEFAULT 0,
    revision INTEGER NOT NULL,
    created_at_ms INTEGER NOT NULL,
    updated_at_ms INTEGER NOT NULL,
    last_activity_at_ms INTEGER NOT NULL
  ) STRICT;
  CREATE INDEX snapshots_by_stage ON snapshots (stage, id);
  CREATE TABLE snapshot_parts (
    snapshot_id TEXT NOT NULL REFERENCES snapshots (id) ON DELETE CASCADE,
    number INTEGER NOT NULL,
    offset_bytes INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    image_bytes INTEGER NOT NULL,
    md5 TEXT NOT NULL,
    sha256 TEXT NOT NULL,
    etag TEXT,
    PRIMARY KEY (snapshot_id, number)
  ) STRICT, WITHOUT ROWID;
  CREATE INDEX snapshot_parts_unsent ON snapshot_parts (snapshot_id, number) WHERE etag IS NULL;
  -- Which URLs are at hand. The URLs themselves are in a table for each snapshot (snapshot-urls.ts).
  CREATE TABLE snapshot_urls (
    snapshot_id TEXT NOT NULL REFERENCES snapshots (id) ON DELETE CASCADE,
    -- Of the part; 0 completes the upload, -1 asks for the object.
    number INTEGER NOT NULL,
    -- Of this snapshot, from 1.
    hand_over INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    PRIMARY KEY (snapshot_id, number)
  ) STRICT, WITHOUT ROWID;
  CREATE TABLE frozen_guests (vm_id TEXT PRIMARY KEY REFERENCES vms (id) ON DELETE CASCADE) STRICT;
  CREATE TABLE image_uses (sha256 TEXT PRIMARY KEY, last_used_at_ms INTEGER NOT NULL) STRICT;
  `,
  `
  ALTER TABLE vms ADD COLUMN stop_accepted INTEGER NOT NULL DEFAULT 0;
  ALTER TABLE vms ADD COLUMN stop_carried_out INTEGER NOT NULL DEFAULT 0;
  -- The next look at each of these VMs finds whether its stop is carried out.
  UPDATE vms SET stop_accepted = power_generation WHERE json_extract(desired, '$.power') = 'stopped';
  `,
  `
  CREATE TABLE image_removals (sha256 TEXT PRIMARY KEY, asked_at_ms INTEGER NOT NULL) STRICT;
  `,
  `
  -- Of desired, for the capacity ledger: the guest may be saved; the VM has a console place for itself.
  ALTER TABLE vms ADD COLUMN can_sleep INTEGER NOT NULL DEFAULT 0;
  ALTER TABLE vms ADD COLUMN holds_place INTEGER NOT NULL DEFAULT 0;
  UPDATE vms SET can_sleep = desired ->> '$.compute.sleepAfterIdleSeconds' > 0 AND desired -> '$.network' IS NOT NULL;
  UPDATE vms SET holds_place = desired ->> '$.power' = 'paused' OR (desired ->> '$.power' = 'running' AND NOT can_sleep);
  `,
  `
  -- Of the packed parts, what lies in staging. Builds before this one freed each part when it was sent.
  ALTER TABLE snapshots ADD COLUMN staged_bytes INTEGER NOT NULL DEFAULT 0;
  UPDATE snapshots SET staged_bytes = (
    SELECT coalesce(sum(bytes), 0) FROM snapshot_parts WHERE snapshot_id = snapshots.id AND etag IS NULL
  ) WHERE stage <> 'completed' AND (stage <> 'failed' OR resumable);
  CREATE INDEX snapshots_staged ON snapshots (last_activity_at_ms, id) WHERE staged_bytes > 0;
  `,
  `
  ALTER TABLE vms ADD COLUMN departure TEXT;
  CREATE UNIQUE INDEX vms_by_departure ON vms (departure ->> '$.id') WHERE departure IS NOT NULL;
  `,
  `
  -- Of VMs that were released and then deleted, for destinations that ask again.
  CREATE TABLE departed (number INTEGER PRIMARY KEY, departure TEXT NOT NULL) STRICT;
  CREATE UNIQUE INDEX departed_by_id ON departed (departure ->> '$.id');
  `,
  `
  ALTER TABLE vms ADD COLUMN arrival TEXT;
  `,
  `
  ALTER TABLE vms ADD COLUMN monitor TEXT NOT NULL DEFAULT 'qemu';
  `,
  `
  ALTER TABLE vms ADD COLUMN keep_awake_until_ms INTEGER;
  `,
  `
  ALTER TABLE vms ADD COLUMN guest TEXT;
  `,
  `
  ALTER TABLE vms ADD COLUMN stop_grace TEXT;
  `,
  `
  ALTER TABLE vms ADD COLUMN memory_lent INTEGER NOT NULL DEFAULT 0;
  ALTER TABLE vms ADD COLUMN memory_wanted_at_ms INTEGER;
  CREATE INDEX vms_by_memory_wanted ON vms (memory_wanted_at_ms) WHERE memory_wanted_at_ms IS NOT NULL;
  `,
  `
  ALTER TABLE vms ADD COLUMN ipv6_prefix TEXT;
  CREATE UNIQUE INDEX vms_by_ipv6_prefix ON vms (ipv6_prefix) WHERE ipv6_prefix IS NOT NULL;
  `,
  `
  -- A number of the counter of revisions for each event. No reference: events outlive what they are about.
  CREATE TABLE events (
    sequence INTEGER PRIMARY KEY,
    at_ms INTEGER NOT NULL,
    vm_id TEXT,
    body TEXT NOT NULL
  ) STRICT;
  `,
  `
  CREATE INDEX events_by_vm ON events (vm_id) WHERE vm_id IS NOT NULL;
  CREATE INDEX events_of_deletions ON events (sequence) WHERE body ->> '$.kind' = 'vm_deleted';
  `,
  `
  -- All that the sums of the capacity ledger and the uses of images read, so that they do not read whole records.
  CREATE INDEX vms_by_promise ON vms (
    monitor, memory_mib, can_sleep, may_be_saved, memory_lent, cpu_millicores, disk_mib, holds_place,
    (ifnull(desired ->> '$.image.rebuild', 0) > ifnull(observed ->> '$.rebuild', 0))
  );
  CREATE INDEX vms_by_images ON vms (
    desired ->> '$.image.rootfsSha256', desired ->> '$.image.kernelSha256', desired ->> '$.image.initrdSha256'
  );
  `,
  `
  -- A guest without an address never sleeps, because no packet could wake it.
  UPDATE vms SET can_sleep = 0, holds_place = holds_place OR desired ->> '$.power' = 'running'
    WHERE can_sleep AND ipv4_address IS NULL AND ipv6_address IS NULL;
  `,
  `
  -- NULL for a removal that was stored before.
  ALTER TABLE image_removals ADD COLUMN operation_id TEXT;
  `,
  `
  -- Builds before this one stored the disk of a resize in compute, too. It made each later resize a change.
  UPDATE vms SET desired = json_remove(desired, '$.compute.disk')
    WHERE CASE WHEN json_valid(desired) THEN desired -> '$.compute.disk' IS NOT NULL END;
  `,
  `
  -- SHA-256 of the id of the multipart upload that parts were sent to; NULL if no part was, or its URL named no upload.
  ALTER TABLE snapshots ADD COLUMN upload_digest TEXT;
  `,
  `
  ALTER TABLE snapshots ADD COLUMN waiting_for TEXT;
  `,
  `
  CREATE INDEX vms_under_deletion ON vms (monitor, memory_mib) WHERE deleting;
  `,
  `
  -- Of VMs that were deleted before they came, and whose sources have not answered that.
  CREATE TABLE give_backs (number INTEGER PRIMARY KEY, at_ms INTEGER NOT NULL, arrival TEXT NOT NULL) STRICT;
  `,
]

export const SCHEMA_VERSION = migrations.length

/** Returns the version of the schema that a database has; 0 if it is empty. */
export const schemaVersionOf = (db: DatabaseSync): number =>
  Number(db.prepare('PRAGMA user_version').get()?.['user_version'])

/**
 * Brings the schema up to date in one transaction; refuses a store written by a newer version.
 *
 * @param target an older version than this build's, for a test of what comes after it
 */
export function migrate(db: DatabaseSync, target: number = SCHEMA_VERSION): void {
  const version = schemaVersionOf(db)
  if (version > SCHEMA_VERSION) {
    throw new Error(
      `the store has schema version ${version}, this build knows up to ${SCHEMA_VERSION}: install the newer vmhostd again, or put back the copy from before the upgrade (copies/schema-${SCHEMA_VERSION}.db beside it)`,
    )
  }
  if (version === target) return
  db.exec('BEGIN IMMEDIATE')
  try {
    for (const sql of migrations.slice(version, target)) db.exec(sql)
    db.exec(`PRAGMA user_version = ${target}`)
    db.exec('COMMIT')
  } catch (error) {
    db.exec('ROLLBACK')
    const because = whyNotJson(db)
    throw because === undefined ? error : new Error(because, { cause: error })
  }
}

/** Columns with JSON that migrations read, each with the key of its rows and the name of a row. */
const JSON_COLUMNS = [
  { table: 'vms', column: 'desired', key: 'id', name: 'the record of the VM' },
  { table: 'vms', column: 'observed', key: 'id', name: 'the record of the VM' },
  { table: 'vms', column: 'departure', key: 'id', name: 'the record of the VM' },
  { table: 'events', column: 'body', key: 'sequence', name: 'the event' },
] as const

/** Returns which row SQLite refuses as "malformed JSON", and what to do; undefined if there is none. */
function whyNotJson(db: DatabaseSync): string | undefined {
  for (const { table, column, key, name } of JSON_COLUMNS) {
    if (!hasColumn(db, table, column)) continue
    const row = db
      .prepare(`SELECT ${key} AS id, quote(${key}) AS quoted FROM ${table} WHERE NOT json_valid(${column})`)
      .get()
    if (row === undefined) continue
    // sqlite3 keeps what belongs to a VM, unless it is said to heed foreign keys.
    const remove = `PRAGMA foreign_keys = ON; DELETE FROM ${table} WHERE ${key} = ${String(row['quoted'])}`
    const again = table === 'vms' ? ', and make it again with vmhostd recover' : ''
    return `${name} ${String(row['id'])} has a "${column}" that is not JSON: remove it from these records with sqlite3 ("${remove}")${again}`
  }
  return undefined
}
