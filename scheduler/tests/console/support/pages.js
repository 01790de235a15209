// The pages of the console, for tests that walk them all.

/** Of the demo, and of the calendar that `oddCalendar` makes. */
export const PAGES = ["/", "/jobs", "/jobs/new", "/jobs/demo/report", "/jobs/demo/report/coming",
  "/jobs/demo/report/settings",
  "/jobs/demo/report/revisions", "/jobs/demo/report/edit", "/runs", "/forecast?hours=6",
  "/calendars", "/calendars/odd/odd", "/executors", "/cluster", "/alarms", "/alarms/rules",
  "/access/users", "/access/tokens", "/access/audit"];

/**
 * A calendar with something in all its parts.
 * @param {import("./scheduler.js").Scheduler} scheduler
 * @param {string} displayName
 */
export const oddCalendar = (scheduler, displayName) =>
  scheduler.call("CalendarService/CreateCalendar", { parent: "apps/odd", calendarId: "odd",
    calendar: { displayName, dates: ["2020-01-01", "2030-01-01"], weekdays: [6, 7],
      windows: [{ startTime: "2030-02-01T00:00:00Z", endTime: "2030-02-02T00:00:00Z" }] } });
