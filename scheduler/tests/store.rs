//! What every store must do, run on each of them: `cargo test --test store sqlite::plan` runs the
//! cases about planning on SQLite alone.
//!
//! A case is a function of a [`Fixture`], in the file of its area; the table below gives it a test
//! per store.

#[path = "support/postgres.rs"]
mod server;

#[path = "store/alarms.rs"]
mod alarms;
#[path = "store/apps.rs"]
mod apps;
#[path = "store/audit.rs"]
mod audit;
#[path = "store/calendars.rs"]
mod calendars;
#[path = "store/cancel.rs"]
mod cancel;
#[path = "store/chains.rs"]
mod chains;
#[path = "store/cluster.rs"]
mod cluster;
#[path = "store/damage.rs"]
mod damage;
#[path = "store/dispatch.rs"]
mod dispatch;
#[path = "store/end.rs"]
mod end;
#[path = "store/events.rs"]
mod events;
#[path = "store/executors.rs"]
mod executors;
#[path = "store/fixture.rs"]
mod fixture;
#[path = "store/follow.rs"]
mod follow;
#[path = "store/inbox.rs"]
mod inbox;
#[path = "store/jobs.rs"]
mod jobs;
#[path = "store/lists.rs"]
mod lists;
#[path = "store/logs.rs"]
mod logs;
#[path = "store/partitions.rs"]
mod partitions;
#[path = "store/past.rs"]
mod past;
#[path = "store/plan.rs"]
mod plan;
#[path = "store/progress.rs"]
mod progress;
#[path = "store/put_back.rs"]
mod put_back;
#[path = "store/races.rs"]
mod races;
#[path = "store/retention.rs"]
mod retention;
#[path = "store/routes.rs"]
mod routes;
#[path = "store/shards.rs"]
mod shards;
#[path = "store/tokens.rs"]
mod tokens;
#[path = "store/users.rs"]
mod users;

/// Makes a test of each case for each store.
macro_rules! cases {
    ($($area:ident: $($case:ident),+ $(,)?;)+) => {
        mod sqlite {
            $(mod $area {
                $(#[tokio::test]
                async fn $case() {
                    crate::$area::$case(&crate::fixture::Fixture::sqlite().await).await;
                })+
            })+
        }

        mod postgres {
            $(mod $area {
                $(#[tokio::test]
                async fn $case() {
                    crate::$area::$case(&crate::fixture::Fixture::postgres().await).await;
                })+
            })+
        }
    };
}

cases! {
    alarms:
        a_rule_is_found_as_it_was_stored_with_its_secrets,
        a_rule_s_name_is_taken_once_and_a_repeated_request_makes_no_second,
        rules_are_listed_by_app_and_name_page_by_page,
        a_rule_changes_and_goes_at_the_version_that_was_seen,
        only_ends_that_some_enabled_rule_is_about_leave_an_event,
        an_app_that_is_deleted_takes_its_rules_and_their_wishes_along,
        a_rule_that_can_t_be_read_leaves_the_others_watching,
        what_a_rule_looks_at_of_a_run_is_told,
        a_row_of_ends_goes_back_to_the_rule_s_last_alarm,
        an_alarm_and_what_it_owes_come_with_the_event_that_raised_it,
        x43_a_claim_without_a_word_is_due_again_after_its_lease,
        two_claimants_at_once_never_get_the_same_delivery,
        x42_a_target_gets_a_few_places_and_one_that_rests_none,
        a_delivery_that_failed_is_due_later_and_says_why,
        a_delivery_that_is_given_up_is_owed_no_more_and_says_why,
        a_rule_that_is_deleted_keeps_its_alarms_and_owes_nothing,
        the_default_s_deliveries_go_to_a_node_that_knows_its_channel,
        alarms_are_listed_newest_first_and_filtered,
        the_first_acknowledgement_counts_in_its_own_app_only,
        old_alarms_go_with_what_they_owe;
    partitions:
        a_new_partition_is_planned_up_to_now,
        each_new_owner_raises_the_epoch_and_finds_what_the_last_one_left,
        what_is_not_held_is_given_back_to_nobody,
        every_change_of_a_job_raises_the_version_of_its_partition;
    plan:
        a_plan_inserts_runs_and_one_without_moves_its_partition,
        a_plan_inserts_runs_as_sent_where_they_have_an_addressee,
        planning_twice_inserts_once,
        a_fire_time_that_has_ended_is_not_planned_again,
        a_plan_of_an_earlier_owner_changes_nothing,
        a_plan_with_old_jobs_changes_nothing,
        a_changed_job_keeps_no_other_of_its_partition_from_its_plan,
        what_was_seen_of_partitions_is_seen_anew_after_a_change_and_a_move,
        a_stale_partition_leaves_the_others_their_plan,
        a_run_outside_the_plan_s_partitions_is_refused,
        a_skip_is_a_row_that_nobody_plans_again,
        a_skip_leaves_a_run_that_was_planned;
    calendars:
        a_calendar_is_made_once_and_found_by_name,
        calendars_are_listed_by_name_page_by_page,
        a_job_comes_with_the_calendars_it_names,
        a_changed_calendar_plans_its_jobs_anew_and_no_others,
        a_changed_calendar_says_nothing_of_what_was_before,
        a_changed_calendar_clears_what_it_was_blamed_for,
        a_calendar_in_use_is_not_deleted,
        an_app_goes_with_its_calendars_unless_others_use_them;
    past:
        what_was_decided_is_found_by_fire_time,
        a_backfill_leaves_out_what_has_a_run_and_not_what_was_skipped,
        a_second_backfill_makes_none_twice_even_when_the_first_has_ended,
        a_repeated_backfill_gets_the_first_answer;
    races:
        x10_a_job_stopped_at_the_moment_it_fires_stays_stopped;
    dispatch:
        a_dispatch_writes_executor_session_and_the_next_fence,
        a_dispatch_needs_queued_and_the_given_fence,
        a_run_that_was_canceled_first_is_not_dispatched,
        a_retry_wakes_once_and_as_the_next_attempt,
        an_ack_needs_dispatched_and_the_given_fence,
        x49_an_ack_of_another_app_or_executor_changes_no_run,
        the_first_ack_is_the_run_s_start;
    routes:
        later_uses_replace_the_earlier,
        uses_that_can_t_be_read_are_counted_anew,
        the_newest_dispatch_counts_whether_its_run_is_open_or_ended,
        of_one_dispatch_the_run_that_was_due_last_counts,
        a_run_that_waits_again_was_sent_as_the_attempt_before,
        a_dispatch_of_a_run_that_named_its_executor_does_not_count,
        an_executor_that_is_forgotten_leaves_it_to_the_one_before,
        a_dispatch_is_found_behind_runs_that_were_never_sent_and_after_weeks;
    end:
        a_run_ends_from_the_given_states_with_the_given_attempt_only,
        an_end_keeps_what_the_result_said,
        the_same_result_again_is_a_duplicate,
        a_result_of_an_attempt_before_is_a_duplicate,
        a_result_of_a_lost_attempt_is_stale,
        a_result_of_a_run_that_never_ran_is_stale,
        an_unknown_run_is_stale,
        answers_come_in_the_order_of_the_requests,
        a_planned_run_that_was_missed_stands_for_a_gap_of_one,
        what_a_late_result_said_is_kept_with_its_attempt,
        x49_a_result_of_another_app_or_executor_changes_no_run,
        x49_a_result_of_an_attempt_before_is_known_to_its_executor_alone,
        x49_a_late_result_of_another_app_or_executor_is_not_kept,
        still_open_names_the_runs_that_have_not_ended,
        last_ends_are_those_of_runs_that_ran;
    chains:
        a_chain_is_followed_across_apps,
        a_save_that_closes_a_circle_is_refused,
        of_two_saves_at_once_that_close_a_circle_one_is_refused,
        of_very_many_saves_at_once_that_close_a_circle_one_is_refused,
        what_ended_runs_returned_is_handed_on;
    cluster:
        a_store_of_its_own_has_one_owner,
        jobs_are_read_as_they_were_at_a_revision,
        what_one_node_hands_to_itself_changes_no_run;
    follow:
        an_end_that_somebody_waits_for_leaves_an_event,
        an_event_says_what_the_run_was,
        an_end_that_nobody_waits_for_leaves_no_event,
        a_wish_for_a_state_makes_an_event_of_every_such_end,
        an_end_wakes_those_who_follow_it_up,
        an_event_is_settled_once_with_what_follows,
        x21_a_result_delivered_twice_ends_its_run_and_starts_children_once,
        a_run_that_exists_or_whose_job_is_gone_is_not_started;
    shards:
        a_parent_is_split_once_with_all_its_shards,
        a_parent_that_was_canceled_first_is_not_split,
        a_parent_runs_from_its_first_shard_and_ends_with_its_last,
        a_parent_whose_shards_end_before_it_is_told_runs_all_the_same,
        two_last_shards_on_two_nodes_make_one_end,
        a_parent_that_is_to_stop_keeps_its_state,
        a_change_of_the_job_removes_no_shard,
        shards_are_listed_with_their_parent_and_left_out_elsewhere;
    put_back:
        a_run_put_back_on_evidence_keeps_its_attempt_and_fence,
        a_run_put_back_for_a_retry_keeps_the_ended_attempt,
        a_run_whose_executor_stopped_keeps_where_it_had_begun,
        a_start_that_was_told_with_the_stop_counts,
        what_an_executor_says_again_of_a_run_it_gave_back_changes_nothing,
        a_run_given_back_twice_then_retried_shows_each_executor,
        a_late_result_is_noted_with_the_one_dispatch_that_it_is_of,
        a_run_canceled_after_its_executor_stopped_shows_no_other_attempt,
        a_loss_is_counted,
        a_put_back_needs_state_attempt_and_fence;
    cancel:
        a_run_is_marked_canceling_with_its_reason,
        a_mark_needs_state_attempt_and_fence,
        a_kill_ends_with_the_attempt_it_was_for,
        a_waiting_run_says_why;
    inbox:
        what_others_change_waits_in_the_inbox_of_its_partition,
        the_inbox_gives_each_change_out_once,
        the_inbox_names_runs_that_are_gone;
    progress:
        the_newest_progress_is_kept_and_a_checkpoint_outlives_it,
        progress_of_an_attempt_that_is_not_current_is_left_out,
        progress_stays_with_the_ended_run;
    logs:
        records_come_back_as_they_were_written,
        records_stored_already_are_left_out,
        pages_go_on_where_the_last_one_ended,
        x46_pages_of_long_records_stay_small_and_leave_none_out,
        a_filter_leaves_records_out_and_still_moves_on,
        records_beyond_the_cap_are_counted_as_dropped,
        records_the_sender_dropped_are_counted_once,
        a_log_is_complete_once_the_last_record_of_an_ended_attempt_is_stored,
        a_log_of_a_lost_attempt_is_complete_with_its_end,
        the_last_attempt_that_logged_is_shown_unless_another_is_named,
        an_attempt_that_goes_on_elsewhere_has_one_log_without_a_gap,
        an_attempt_that_wrote_nothing_where_it_ended_is_complete,
        records_of_an_executor_that_was_taken_over_from_are_left_out,
        what_goes_on_is_counted_where_it_finds_no_room,
        a_log_may_go_on_with_nothing_but_what_was_dropped,
        counts_of_dropped_records_end_where_a_log_can_still_be_read,
        a_log_begun_before_dispatches_were_told_apart_goes_on,
        the_log_of_an_unknown_run_is_not_found;
    damage:
        r11_a_job_that_can_t_be_read_has_a_problem_and_leaves_the_others_whole,
        a_revision_that_can_t_be_read_leaves_the_other_runs_their_specs;
    events:
        changes_are_told_in_their_order,
        the_last_word_on_a_run_counts,
        a_planned_run_is_told_of_once_something_becomes_of_it,
        a_page_of_events_goes_on_where_the_last_one_ended,
        a_cursor_without_events_stays_good,
        a_cursor_older_than_what_is_kept_is_not_found,
        a_commit_sends_hints;
    jobs:
        a_new_job_is_found_as_it_was_made,
        a_name_belongs_to_one_living_job,
        a_repeated_request_makes_one_job,
        a_new_job_comes_with_the_runs_of_its_first_seconds,
        a_replan_sees_the_job_as_it_will_be_and_its_partition,
        a_change_under_an_old_version_changes_nothing,
        changes_at_the_same_time_are_made_or_refused_each_for_itself,
        a_change_plans_the_runs_to_come_anew,
        a_pause_skips_the_due_runs_too_but_none_that_was_sent,
        a_restarted_schedule_forgets_what_it_missed,
        a_change_leaves_no_fire_time_that_has_come_without_a_row,
        what_nobody_served_before_a_change_is_settled_with_it,
        a_spread_fire_time_that_has_come_outlives_a_change,
        a_run_that_has_ended_is_not_planned_anew,
        owners_load_what_changed,
        a_change_is_followed_by_the_runs_that_were_never_sent,
        an_owner_loads_a_deleted_job_as_long_as_it_has_open_runs,
        revisions_are_listed_newest_first,
        a_run_by_hand_waits_in_the_inbox,
        a_deleted_job_is_run_by_nobody,
        next_fires_are_shown;
    apps:
        an_app_is_made_once_and_found,
        a_repeated_request_makes_one_app,
        an_update_needs_the_version_that_was_seen,
        apps_are_listed_by_name_page_by_page,
        an_app_with_jobs_or_open_runs_stays;
    tokens:
        a_token_is_found_as_it_was_stored,
        a_repeated_request_makes_no_second_token,
        tokens_are_listed_by_id_page_by_page,
        the_first_revocation_counts,
        the_last_use_is_noted;
    users:
        a_user_is_found_as_it_was_stored,
        a_repeated_request_makes_one_user,
        users_are_listed_by_id_page_by_page,
        a_user_changes_at_the_version_that_was_seen,
        a_change_ends_the_sign_ins_it_is_told_to_and_no_others,
        a_deleted_user_leaves_no_sign_in_and_no_token_that_works,
        a_sign_in_is_found_as_it_was_stored_and_noted_with_its_user,
        a_sign_in_takes_the_place_of_another_and_of_the_oldest,
        sign_ins_end_one_by_one_or_all_of_a_holder,
        sign_ins_that_have_ended_by_themselves_are_removed;
    audit:
        an_event_is_found_as_it_was_written_and_gets_its_end,
        events_come_newest_first_page_by_page_and_by_app,
        events_are_found_by_each_of_their_fields,
        old_events_are_removed;
    executors:
        a_first_claim_makes_the_executor,
        the_same_process_goes_on_with_its_attempts,
        c57_a_process_that_renewed_its_credential_goes_on_by_its_resume_token,
        a_claim_that_knows_its_runs_finds_the_same_as_one_that_looks,
        a_process_whose_welcome_was_lost_is_still_itself,
        another_process_is_refused_while_the_first_is_alive,
        a_process_that_is_silent_is_replaced,
        a_process_that_left_makes_room_at_once,
        what_an_older_session_says_changes_nothing,
        the_first_end_of_a_session_counts,
        a_node_that_starts_ends_the_sessions_it_held,
        executors_are_listed_by_app_and_name,
        a_cordon_is_set_and_cleared_and_outlives_sessions,
        an_executor_is_forgotten_once_nothing_refers_to_it,
        an_app_that_has_all_its_executors_forgets_those_gone_for_longest;
    lists:
        jobs_are_found_by_each_of_their_fields,
        jobs_come_page_by_page_in_each_order,
        runs_come_newest_first_whether_open_or_ended,
        runs_to_come_are_shown_to_those_who_ask,
        runs_are_found_by_each_of_their_fields,
        only_a_full_view_has_params_output_and_attempts,
        open_runs_are_counted_by_what_they_do;
    retention:
        ended_runs_go_after_their_time_and_open_ones_stay,
        a_job_s_own_retention_outdoes_the_server_s,
        logs_go_before_their_run_but_not_while_it_goes_on,
        a_deleted_job_stays_while_its_runs_do,
        a_shard_stays_while_its_parent_goes_on,
        a_request_id_is_free_again_after_a_day,
        r42_ten_thousand_executors_that_left_leave_nothing_in_lists,
        nodes_and_executors_that_stay_away_are_forgotten;
}
