import { watch } from 'node:fs'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { SOURCE_FOLDERS } from '../import-graph.ts'
import { checkout } from '../paths.ts'

/** An editor or git writes several files at a time. */
const SETTLE_MS = 150

/** Calls `check` now and after each change of a source or document, one call at a time. Does not return. */
export async function watchSources(check: () => Promise<unknown>): Promise<never> {
  let changes = 0
  let wake = () => {}
  for (const folder of [...SOURCE_FOLDERS, 'docs', 'bpf', 'packaging']) {
    watch(path.join(checkout, folder), { recursive: true }, (_event, name) => {
      // The types of the client are made by the check itself.
      if (name?.endsWith('.d.ts') === true || name?.endsWith('.new') === true) return
      changes += 1
      wake()
    })
  }
  for (;;) {
    const seen = changes
    await check()
    console.log('\nwaiting for changes; end with Ctrl-C')
    if (changes === seen) {
      await new Promise<void>((resolve) => {
        wake = resolve
      })
    }
    await sleep(SETTLE_MS)
  }
}
