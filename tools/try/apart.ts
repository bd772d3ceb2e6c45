/** Test files that `./dev try` runs in a process of their own, each with the reason. All others share one process. */
export const APART: Readonly<Record<string, string>> = {
  'src/daemon/doctor/read-facts.test.ts': 'lets the kernel refuse a call for the rest of its process',
  'src/daemon/listeners.test.ts': 'lets the kernel refuse a call for the rest of its process',
  'src/daemon/new-files.test.ts': 'lets the kernel refuse a call for the rest of its process',
  'src/host/pty/quiet-pages.test.ts':
    'needs the one timer of its module, which an earlier test may have started',
  'src/store/database/write-ahead-log.test.ts': 'asks which files its process holds open',
}

/**
 * Tests that `./dev try` always leaves: they boot a lab or a browser, build the package,
 * or take more than half a minute each.
 */
export const LEFT = /^test\/(host|two-hosts|package|browser|browser-on-host|reboot|sim)\//
