/** Changes the configuration of this lab's daemon. */
import { readFileSync, writeFileSync } from 'node:fs'
import { ready, sh } from './shell.ts'

const CONFIG = '/etc/vmhostd/config.toml'

type Value = string | number | boolean | readonly (string | number)[]

/** Sets keys of a table, restarts the daemon, and waits until it is ready. `undefined` restores a key's default. */
export async function configure(
  table: string,
  keys: Readonly<Record<string, Value | undefined>>,
): Promise<void> {
  const text = readFileSync(CONFIG, 'utf8')
  const changed = setKeys(text, table, keys)
  if (changed === text) return
  writeFileSync(CONFIG, changed)
  await sh('systemctl', 'restart', 'vmhostd')
  await ready()
}

function setKeys(text: string, table: string, keys: Readonly<Record<string, Value | undefined>>): string {
  const lines = text.split('\n')
  const head = lines.indexOf(`[${table}]`)
  if (head < 0) throw new Error(`${CONFIG} has no [${table}]`)
  const next = lines.findIndex((line, at) => at > head && line.startsWith('['))
  const end = next < 0 ? lines.length : next
  const names = Object.keys(keys)
  const kept = lines
    .slice(head + 1, end)
    .filter((line) => !names.some((name) => line.startsWith(`${name} =`)))
  const set = Object.entries(keys).flatMap(([name, value]) =>
    value === undefined ? [] : [`${name} = ${JSON.stringify(value)}`],
  )
  return [...lines.slice(0, head + 1), ...set, ...kept, ...lines.slice(end)].join('\n')
}
